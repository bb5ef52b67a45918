"""What users hold in their hands: the agent, its plans and results, and the ways in and out."""
