import subprocess
import sys

import pytest
import torch

from conle.methods.training.optimizers import SGD, Adam


@pytest.mark.parametrize(
    ("own", "of_torch", "settings"),
    [
        (SGD, torch.optim.SGD, {"momentum": 0.0}),
        (SGD, torch.optim.SGD, {"momentum": 0.9}),
        (Adam, torch.optim.Adam, {}),
    ],
)
def test_steps_are_those_of_torch(own, of_torch, settings):
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(7, 3, generator=generator), torch.randn(3, generator=generator)]
    followed = []
    for make, more in ((own, {}), (of_torch, {"fused": True})):
        weights = [torch.nn.Parameter(value.clone()) for value in start]
        optimizer = make(weights, lr=0.1, **settings, **more)
        for step in range(5):
            optimizer.zero_grad()
            assert all(weight.grad is None for weight in weights)
            sum((weight**2).sum() * (step + 1) for weight in weights).backward()
            optimizer.step()
        followed.append(torch.cat([weight.detach().ravel() for weight in weights]))
    assert torch.equal(*followed)
    assert not torch.equal(followed[0], torch.cat([value.ravel() for value in start]))


@pytest.mark.slow
@pytest.mark.parametrize("made", ["ConLE(steps=2, stopping='fixed')", "LEVIMLP(epochs=2)"])
def test_training_imports_no_compiler(made):
    """The compiler takes a second to import, and no method compiles anything."""
    script = (
        "import sys, numpy as np\n"
        "from conle import ConLE, LEVIMLP\n"
        f"{made}.set_params(device='cpu').fit(np.eye(4), np.eye(4))\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
