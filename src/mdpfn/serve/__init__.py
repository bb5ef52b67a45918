"""`mdpfn serve`: an agent that answers requests on this machine, learns from them and forgets nothing."""
