"""What is learnt from running tasks: averages, speeds, and how far profiles are off."""
