def write(result, path):
    pass
