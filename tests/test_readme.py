import re

import numpy as np


def test_python_example_runs(request, capsys):
    readme = (request.config.rootpath / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    np.testing.assert_allclose(names["D"].sum(axis=1), 1)
    assert "kl_divergence" in capsys.readouterr().out
