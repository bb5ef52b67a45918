"""`python -m mdpfn`, also for torchrun: `torchrun --nproc-per-node 2 -m mdpfn train …`."""

from mdpfn.cli import main

main()
