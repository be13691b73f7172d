"""python -m paceline.torch.launch: paceline.launch, where who knows torchrun looks for it."""

import sys

from paceline.launch import main

if __name__ == "__main__":
    sys.exit(main())
