"""The stores: each keeps the promises of `frontier/store.py` on its own technology. Only `run/wiring.py` names one."""
