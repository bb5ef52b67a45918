"""What users see of problems with vector observations: result, explanation and a picture of values."""
