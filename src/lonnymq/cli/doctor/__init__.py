"""The checks of `lonnymq doctor`."""
