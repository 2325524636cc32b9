"""Loaded by Python under Wine alone: hides a function that Wine 8 announces but does not have."""

import _winapi

if hasattr(_winapi, "CopyFile2"):
    del _winapi.CopyFile2
