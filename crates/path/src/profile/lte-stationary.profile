about = x
