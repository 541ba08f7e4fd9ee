"""simhbase: have we already seen this text, or one almost like it?"""
