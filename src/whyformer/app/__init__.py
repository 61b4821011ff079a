"""The web page and its API: ``whyformer serve``.

FastAPI with a small page written by hand: it gives the interactions that the page is for and an API
that describes itself, without a build step and without a framework in the page.
"""
