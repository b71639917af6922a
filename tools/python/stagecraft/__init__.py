"""What Stagecraft has for Python: `stagecraft.torch` profiles a PyTorch model and writes a plan as a program."""
