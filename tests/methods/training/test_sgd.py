import subprocess
import sys

import pytest
import torch

from conle.methods.training.sgd import SGD


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_are_those_of_torch(momentum):
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(7, 3, generator=generator), torch.randn(3, generator=generator)]
    followed = []
    for make in (SGD, lambda *given: torch.optim.SGD(given[0], *given[1:], fused=True)):
        weights = [torch.nn.Parameter(own.clone()) for own in start]
        optimizer = make(weights, 0.1, momentum)
        for step in range(5):
            optimizer.zero_grad()
            assert all(own.grad is None for own in weights)
            sum((own**2).sum() * (step + 1) for own in weights).backward()
            optimizer.step()
        followed.append(torch.cat([own.detach().ravel() for own in weights]))
    assert torch.equal(*followed)
    assert not torch.equal(followed[0], torch.cat([own.ravel() for own in start]))


@pytest.mark.slow
def test_training_imports_no_compiler():
    """The compiler takes a second to import, and no method compiles anything."""
    script = (
        "import sys, numpy as np\n"
        "from conle import ConLE\n"
        "ConLE(steps=2, stopping='fixed', device='cpu').fit(np.eye(4), np.eye(4))\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
