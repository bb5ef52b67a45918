"""`python -m mdpfn`, also for torchrun: `torchrun --nproc-per-node 2 -m mdpfn train …`."""

from mdpfn.cli.main import main

main()
