"""The stores: each keeps the promises of `frontier/store.py` on its own technology. Only `run/stores.py` names one."""
