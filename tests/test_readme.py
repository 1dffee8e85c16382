import re

import numpy as np


def test_python_example_runs(request, capsys):
    readme = (request.config.rootpath / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    np.testing.assert_allclose(names["D"].sum(axis=1), 1)
    assert "kl_divergence" in capsys.readouterr().out


def test_example_of_the_posterior_decoder(request, capsys):
    """It prints what its comment says."""
    page = (request.config.rootpath / "docs" / "posterior.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(example, "docs/posterior.md", "exec"), {})
    said = float(re.findall(r"# (0\.\d+)$", example, flags=re.MULTILINE)[0])
    assert abs(float(capsys.readouterr().out) - said) < 0.03


def test_files_it_names_are_there(request):
    root = request.config.rootpath
    readme = (root / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([^)#]+)\)", readme)
    assert linked
    named = re.findall(r"`((?:conf|src|tests|data/01_raw|benchmarks)/[^`*]*)`", readme)
    for path in [*linked, *named]:
        # What is in conf/local is the user's to write.
        assert path.startswith("conf/local/") or (root / path).exists(), path
    assert "<!--" not in readme


def test_commands_name_pipelines_and_parameters_that_exist(request):
    root = request.config.rootpath
    readme = (root / "README.md").read_text(encoding="utf-8")
    registry = (root / "src" / "conle" / "pipeline_registry.py").read_text(encoding="utf-8")
    for pipeline in re.findall(r"--pipeline=(\w+)", readme):
        assert f'"{pipeline}"' in registry
