#!/usr/bin/env python3
"""Makes pictures of the attention views at 1280 and 390 pixels, in the dark, and as printed, to look at after a change.

    docs/make_view_screenshots.py build/brasa MODEL FOLDER

MODEL is the folder of a BERT such as MiniLM. FOLDER gets a PNG for each view and size, the figures that
`brasa attention -o figure.svg` writes, and times.txt: sizes of pages and times to the first drawing. Requires
chromium and chromedriver, as tests/viz/test_views.py does.
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/viz"))
from webdriver import Browser  # noqa: E402

SENTENCES = ["time flies like an arrow", "fruit flies like a banana"]
LONG = "The quick brown fox jumps over the lazy dog, and then it sleeps under an old oak tree. " * 20
VIEWS = ["head", "heatmap", "model", "neuron"]
SCREENS = {"1280": (1280, ""), "390": (390, ""), "print": (720, "print")}

# What a user does before the picture is made.
ACTIONS = {
    "head": "document.querySelectorAll('.tokens.left li')[2].click()",
    "neuron": "document.querySelectorAll('.tokens.left li')[2].click()",
    "model": "document.querySelectorAll('.cell')[14].click()",
    "heatmap": "",
}


def write(brasa, model, path, texts, *options):
    subprocess.run([brasa, "attention", "--model", model, *texts, "-o", path, *options], check=True,
                   stdout=subprocess.DEVNULL)


def picture(browser, page, path, width, media, action="", height=1000):
    browser.no_screen()
    browser.screen(width, height)
    browser.open(page)
    browser.wait("section.view")
    if media == "print":
        browser.screen(width, height, media)
        browser.script("dispatchEvent(new Event('beforeprint'))")
    if action:
        browser.script(action)
    browser.frame()
    whole = browser.script("return document.documentElement.scrollHeight")
    browser.screen(width, min(whole, 4000), media)
    browser.screenshot(path)


def first_drawing(browser, page):
    """Returns the milliseconds from the start of loading to the first drawing of a view."""
    browser.no_screen()
    browser.open(page)
    browser.wait("section.view")
    return browser.script("""return performance.getEntriesByName("first-drawing")[0]?.startTime ??
        performance.getEntriesByType("paint").at(-1).startTime""")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    brasa, model, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    browser = Browser()
    try:
        for view in VIEWS:
            maps = ["--map", "weights,rollout,gradient"] if view in ("head", "heatmap") else []
            heads = ["--head", "mean"] if view == "heatmap" else []
            expanded = ["--expanded"] if view == "neuron" else []
            page = folder / f"{view}.html"
            write(brasa, model, page, SENTENCES, "--view", view, "--layer", "1", *maps, *heads, *expanded)
            for name, (width, media) in SCREENS.items():
                picture(browser, page, folder / f"{view}-{name}.png", width, media)
                if ACTIONS[view] and media != "print":
                    picture(browser, page, folder / f"{view}-{name}-selected.png", width, media, ACTIONS[view])
            write(brasa, model, page, SENTENCES, "--view", view, "--layer", "1", "--display-mode", "dark", *heads)
            picture(browser, page, folder / f"{view}-dark.png", 1280, "", ACTIONS[view])
            if view != "neuron":
                write(brasa, model, folder / f"{view}.svg", SENTENCES, "--view", view, "--layer", "1", *heads)
        with open(folder / "times.txt", "w", encoding="utf-8") as times:
            for view in VIEWS:
                page = folder / f"long-{view}.html"
                write(brasa, model, page, [LONG], "--view", view)
                times.write(f"{view}, {LONG.count(' ')} words: {page.stat().st_size / 1e6:.1f} MB, first drawing "
                            f"after {first_drawing(browser, page):.0f} ms\n")
                picture(browser, page, folder / f"long-{view}.png", 1280, "", ACTIONS[view])
    finally:
        browser.close()
    print((folder / "times.txt").read_text(), end="")


if __name__ == "__main__":
    main()
