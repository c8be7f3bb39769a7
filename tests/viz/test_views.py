#!/usr/bin/env python3
"""Tests the attention views in a headless Chromium, with pointer, clicks and keys like a user's.

    tests/viz/test_views.py BUILD [TEST...]      BUILD contains brasa_pages, which writes the pages
    SCREENSHOTS=DIR tests/viz/test_views.py BUILD   also saves pictures

Drawings and displayed numbers are compared with the formulas of pages.c.
"""
import base64
import gzip
import html
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

from webdriver import Browser

PAIR = ["[CLS]", "time", "flies", "like", "an", "arrow", "[SEP]",
        "fruit", "flies", "like", "a", "banana", "[SEP]"]
B = 7  # where the second sentence begins
SIZE = 16
ROW = 22

browser = None
pages = None


# ---- What pages.c computes -----------------------------------------------------------------------

def softmax_row(l, h, i, columns, sharpness=3.0, causal=False):
    logits = [-math.inf if causal and j > i else
              sharpness * math.sin(1 + 0.7 * l + 1.3 * h + 2.1 * i + 3.7 * j) for j in range(columns)]
    total = sum(math.exp(x) for x in logits)
    return [math.exp(x) / total for x in logits]


def vector(l, h, i, phase):
    return [3 * math.sin(phase + l + 2 * h + 0.5 * i + 1.1 * n) for n in range(SIZE)]


def query(l, h, i):
    return vector(l, h, i, 0.3)


def key(l, h, j):
    return vector(l, h, j, 2.2)


def dot(l, h, i, j):
    return sum(a * b for a, b in zip(query(l, h, i), key(l, h, j)))


def value(text):
    return float(text.replace("−", "-").replace("∞", "inf"))


# ---- Reading the page ----------------------------------------------------------------------------

class Page(unittest.TestCase):
    """A page must not request other addresses, or cause messages in the browser's log."""

    def show(self, name):
        browser.resize(1300, 1000)
        browser.open(pages / f"{name}.html")
        browser.wait("section.view")
        self.addCleanup(self.check_quiet)

    def show_changed(self, old, new):
        """Shows the page of heads with one text replaced."""
        text = (pages / "head.html").read_text()
        self.assertEqual(text.count(old), 1)
        (pages / "changed.html").write_text(text.replace(old, new))
        browser.open(pages / "changed.html")

    def check_quiet(self):
        addresses = browser.requests()
        self.assertEqual([a for a in addresses if not a.startswith(("file:", "data:"))], [])
        # The warning about reading pixels is caused by the tests.
        self.assertEqual([c for c in browser.complaints() if "willReadFrequently" not in c], [])

    def view(self, n=0):
        return browser.all("section.view")[n]

    def left(self, view=None):
        return (view or self.view()).all(".tokens.left li")

    def right(self, view=None):
        return (view or self.view()).all(".tokens.right li")

    def texts(self, elements):
        return [e.text for e in elements]

    def select(self, name, view=None):
        for label in (view or self.view()).all("label"):
            if label.text.startswith(name):
                return label.find("select")
        return None

    def numbers(self, view=None):
        """Returns the weights in a read-out, with all their digits."""
        return [value(e.attribute("title"))
                for e in (view or self.view()).all(".readout td.number:not(.dot)")]

    def weight(self, i, j, view=None):
        """Returns a weight as a user sees it: clicks one token and points at the other."""
        view = view or self.view()
        if view.find(".tokens.left").all("li.pinned") != [] and \
                view.find("li.pinned").text != self.left(view)[i].text:
            browser.key("Escape")
        if not self.left(view)[i].attribute("class") or "pinned" not in \
                self.left(view)[i].attribute("class"):
            self.left(view)[i].click()
        self.right(view)[j].point()
        return self.numbers(view)

    def check_rows(self, expected, view=None):
        """Checks every displayed weight; expected(i) returns a row."""
        view = view or self.view()
        columns = len(self.right(view))
        for i, item in enumerate(self.left(view)):
            item.click()
            row = expected(i)
            for j in range(columns):
                self.right(view)[j].point()
                self.assertLessEqual(abs(self.numbers(view)[0] - row[j]), 6e-6 * row[j],
                                     f"{i} -> {j}")
            item.click()

    def between(self, view=None):
        """Returns the width of the space between the tokens."""
        return (view or self.view()).find(".between").box["width"]

    def heads(self, view=None):
        return [int(e.text) for e in (view or self.view()).all(".head[aria-pressed=true]")]


def ink(canvas, x, y, reach):
    """Returns the sum of the opacities in a column of pixels around y."""
    top = max(int(y) - reach, 0)
    return sum(p[3] for p in canvas.pixels(x, top, 1, 2 * reach + 1)) / 255


def line_ink(weight, i, j, row, between):
    """Returns the expected sum of the opacities of a line 2 pixels wide from token i to token j."""
    slope = (j - i) * row / between
    return weight * 2 * math.sqrt(1 + slope * slope)


# ---- The head view -------------------------------------------------------------------------------

class HeadView(Page):
    def test_initial_settings_of_the_page(self):
        self.show("head")
        self.assertEqual(browser.find("h1").text, "Heads")
        self.assertEqual(self.texts(self.left()), PAIR)
        self.assertEqual(self.texts(self.right()), PAIR)
        self.assertEqual(self.heads(), [8])
        self.assertEqual(self.select("Layer").options(), ["0", "1", "2", "3"])

    def test_every_weight_is_displayed(self):
        self.show("head")
        self.check_rows(lambda i: softmax_row(0, 8, i, 13))
        self.select("Layer").choose("2")
        self.assertEqual(self.heads(), [8], "heads are kept")
        self.assertLessEqual(abs(self.weight(3, 4)[0] - softmax_row(2, 8, 3, 13)[4]), 1e-6)

    def test_lines_are_as_opaque_as_weights(self):
        self.show("head")
        canvas, between = self.view().find("canvas"), self.between()
        for i in (0, 5, 12):
            self.left()[i].point()
            row = softmax_row(0, 8, i, 13)
            for j in range(13):
                at = between - 4
                y = (i + 0.5) * ROW + (j - i) * ROW * (at + 0.5) / between
                expected = line_ink(row[j], i, j, ROW, between) if row[j] >= 1 / 512 else 0
                self.assertLessEqual(abs(ink(canvas, at, y, 8) - expected), 0.05 * expected + 0.05,
                                     f"{i} -> {j}")

    def test_lines_of_many_heads_are_as_opaque_as_weights(self):
        """The lines of 12 heads share 14 pixels."""
        self.show("head")
        self.view().all(".heads button")[-1].click()  # all
        canvas, between = self.view().find("canvas"), self.between()
        self.left()[2].point()
        rows = [softmax_row(0, h, 2, 13) for h in range(12)]
        for j in range(13):
            at = between - 2
            y = 2.5 * ROW + (j - 2) * ROW * (at + 0.5) / between
            weights = [row[j] for row in rows if row[j] >= 1 / 512]
            expected = line_ink(sum(weights), 2, j, ROW, between) * (14 / 12) / 2
            self.assertLessEqual(abs(ink(canvas, at, y, 10) - expected), 0.1 * expected + 0.05, f"-> {j}")

    def test_lines_of_heads_lie_side_by_side(self):
        self.show("head")
        self.view().all(".head")[3].click()
        canvas = self.view().find("canvas")
        i = max(range(13), key=lambda n: min(softmax_row(0, h, n, 13)[n] for h in (3, 8)))
        self.left()[i].point()
        for head, y, colour in ((3, -1, (0xd9, 0x3a, 0x3f)), (8, 0, (0xa3, 0xa1, 0x22))):
            seen = canvas.pixels(self.between() / 2, (i + 0.5) * ROW + y, 1, 1)[0]
            weight = softmax_row(0, head, i, 13)[i]
            self.assertLessEqual(abs(seen[3] / 255 - weight), 0.02, f"head {head}")
            self.assertLessEqual(max(abs(a - b) for a, b in zip(seen, colour)), 12, f"head {head}")

    def test_only_large_weights_have_lines_until_a_token_is_chosen(self):
        self.show("head")
        self.view().all(".heads button")[-1].click()  # all
        browser.point(x=5, y=5)
        weights = [(w, i, j) for h in range(12) for i in range(13)
                   for j, w in enumerate(softmax_row(0, h, i, 13))]
        cutoff = min(n / 100 for n in range(1, 100)
                     if sum(w >= n / 100 for w, _, _ in weights) <= 6 * 13)
        kept = [(i, j) for w, i, j in weights if w >= cutoff]
        self.assertGreater(len(kept), 13)
        self.assertIn(f"Lines show {len(kept)} of 2,028 weights: those of at least {cutoff}.",
                      self.view().find(".readout").text)
        canvas = self.view().find("canvas")
        reached = {j for _, j in kept}
        self.assertLess(len(reached), 13)
        for j in range(13):
            seen = ink(canvas, self.between() - 1, (j + 0.5) * ROW, 9)
            self.assertEqual(seen > 0, j in reached, f"lines to {j}")
        self.left()[0].point()
        self.assertGreater(ink(canvas, self.between() - 1, 2.5 * ROW, 9), 0, "a chosen token shows all")

    def test_the_drawing_fits_a_phone(self):
        (pages / "changed.html").write_text(
            '<iframe style="width: 390px; height: 900px; border: 0" srcdoc="' +
            html.escape((pages / "head.html").read_text()) + '"></iframe>')
        browser.open(pages / "changed.html")
        browser.inside(browser.find("iframe"))
        browser.wait("section.view")
        view, stage = self.view().box, self.view().find(".stage").box
        self.assertLessEqual(stage["x"] + stage["width"], view["x"] + view["width"])
        self.assertEqual(browser.script("return document.documentElement.scrollWidth > innerWidth"), False)

    def test_all_lines_without_a_token(self):
        self.show("head")
        canvas = self.view().find("canvas")
        for i in range(13):
            self.assertGreater(ink(canvas, 1, (i + 0.5) * ROW, 10), 0.3)
        self.left()[0].point()
        self.assertEqual(ink(canvas, 1, 5.5 * ROW, 5), 0)
        browser.point(x=5, y=5)
        self.assertGreater(ink(canvas, 1, 5.5 * ROW, 5), 0.3, "leaving shows all again")

    def test_pointing_at_either_side(self):
        self.show("head")
        self.view().all(".head")[3].click()
        self.left()[4].point()
        self.assertEqual(self.left()[4].attribute("class"), "chosen")
        rows = [softmax_row(0, h, 4, 13) for h in (3, 8)]
        for j in range(13):
            self.check_boxes(self.right()[j], [row[j] for row in rows])
        self.assertEqual(self.left()[4].style("background-image"), "none")
        self.right()[6].point()
        self.assertEqual(self.right()[6].attribute("class"), "chosen")
        columns = [[softmax_row(0, h, i, 13)[6] for i in range(13)] for h in (3, 8)]
        for i in range(13):
            self.check_boxes(self.left()[i], [column[i] for column in columns])
        browser.point(x=5, y=5)
        self.assertEqual(self.view().all(".chosen"), [])

    def check_boxes(self, item, weights):
        """Checks a token's boxes: one for each head, side by side, half as opaque as the weight."""
        image = item.style("background-image")
        if max(weights) < 1 / 512:
            self.assertEqual(image, "none")
            return
        stops = re.findall(r"color\(srgb [\d.e-]+ [\d.e-]+ [\d.e-]+ / ([\d.e-]+)\) ([\d.]+)%", image)
        self.assertEqual(len(stops), 2 * len(weights), image)
        for n, weight in enumerate(weights):
            for k in range(2):
                opacity, place = stops[2 * n + k]
                self.assertLessEqual(abs(float(opacity) - weight / 2), 1e-3, image)
                self.assertLessEqual(abs(float(place) - (n + k) * 100 / len(weights)), 0.01)

    def test_displayed_weights_are_sorted(self):
        self.show("head")
        self.left()[1].point()
        row = softmax_row(0, 8, 1, 13)
        order = sorted(range(13), key=lambda j: -row[j])[:12]
        lines = self.view().all(".readout tr")
        self.assertEqual([line.find("bdi").text for line in lines], [PAIR[j] for j in order])
        for told, j in zip(self.numbers(), order):
            self.assertLessEqual(abs(told - row[j]), 1e-6)
        self.assertIn("and 1 more", self.view().find(".readout").text)

    def test_displayed_weights_have_three_digits(self):
        self.show("head")
        self.left()[1].point()
        row = softmax_row(0, 8, 1, 13)
        cells = self.view().all(".readout td.number")
        for cell, weight in zip(cells, sorted(row, reverse=True)):
            self.assertEqual(len(re.sub(r"^0\.0*|\.|e.*", "", cell.text)), 3, cell.text)
            self.assertLessEqual(abs(value(cell.text) - weight), 5.1e-3 * weight)

    def test_positions_tell_equal_tokens_apart(self):
        """Positions count from 0 in the whole text, also if only a sentence is shown."""
        self.show("head")
        self.left()[2].click()
        self.right()[9].point()
        heading = self.view().find(".readout p")
        self.assertEqual(heading.text, "flies #2 → like #9")
        self.left()[2].click()
        self.right()[9].point()
        self.assertEqual(self.view().find(".readout p").text, "like #9 ← ")
        self.select("Attention").choose("Sentence B → Sentence A")
        self.left()[1].point()
        self.assertEqual(self.view().find(".readout p").text, "flies #8 → ")
        row = softmax_row(0, 8, 8, 13)[:B]
        order = sorted(range(B), key=lambda j: -row[j])
        told = [cell.text for cell in self.view().all(".readout td.position")]
        self.assertEqual(told, [f"#{j}" for j in order])

    def test_squares_choose_heads(self):
        self.show("head")
        squares = self.view().all(".head")
        squares[8].click()
        self.assertEqual(self.heads(), [8], "the last one stays on")
        squares[2].click()
        self.assertEqual(self.heads(), [2, 8])
        squares[8].click()
        self.assertEqual(self.heads(), [2])
        time.sleep(0.6)  # so that the next click is not a double click
        squares[5].double_click()
        self.assertEqual(self.heads(), [5])
        time.sleep(0.6)
        squares[5].double_click()
        self.assertEqual(self.heads(), list(range(12)), "double click on the only one shows all")
        time.sleep(0.6)
        squares[5].double_click()
        self.assertEqual(self.heads(), [5])

    def test_squares_have_colours(self):
        self.show("head")
        active = self.view().all(".head")
        self.view().all(".heads button")[-1].click()  # all
        colours = [square.style("background-color") for square in active]
        self.assertEqual(len(set(colours)), 12)
        active[3].click()
        browser.point(x=5, y=5)
        self.assertNotEqual(active[3].style("background-color"), colours[3], "lightened")

    def test_more_heads_than_colours_by_hand(self):
        self.show("single")
        colours = {e.style("background-color") for e in self.view().all(".head")}
        self.assertEqual(len(colours), 20)

    def test_filters_are_sliced_not_renormalised(self):
        self.show("head")
        box = self.select("Attention")
        self.assertEqual(box.options(), ["All"] + [f"Sentence {p} → Sentence {q}"
                                                   for p, q in ("AA", "BB", "AB", "BA")])
        parts = {"A": (0, B), "B": (B, 13)}
        for p, q in ("AA", "BB", "AB", "BA"):
            box.choose(f"Sentence {p} → Sentence {q}")
            self.assertEqual(self.texts(self.left()), PAIR[slice(*parts[p])])
            self.assertEqual(self.texts(self.right()), PAIR[slice(*parts[q])])
            self.assertEqual(self.heads(), [8])
            for i, j in ((0, 0), (3, 5), (5, 1)):
                whole = softmax_row(0, 8, parts[p][0] + i, 13)[parts[q][0] + j]
                self.assertLessEqual(abs(self.weight(i, j)[0] - whole), 1e-6)
                self.left()[i].click()

    def test_no_filter_for_one_map(self):
        self.show("single")
        for n in range(3):
            self.assertIsNone(self.select("Attention", self.view(n)))

    def test_included_layers_keep_their_numbers(self):
        self.show("some")
        box = self.select("Layer")
        self.assertEqual(box.options(), ["1", "3"])
        self.assertEqual(box._js("return e.value"), "3")
        self.assertLessEqual(abs(self.weight(1, 2)[0] - softmax_row(3, 0, 1, 13)[2]), 1e-6)

    def test_keys(self):
        self.show("head")
        self.left()[0]._js("e.focus()")
        browser.frame()
        self.assertEqual(self.left()[0].attribute("class"), "chosen")
        browser.key("ArrowDown")
        browser.key("ArrowDown")
        self.assertEqual(self.left()[2].attribute("class"), "chosen")
        self.assertEqual(self.left()[2].attribute("aria-selected"), "true")
        browser.key("Enter")
        self.assertIn("pinned", self.left()[2].attribute("class"))
        browser.key("ArrowRight")
        browser.key("ArrowDown")
        self.assertLessEqual(abs(self.numbers()[0] - softmax_row(0, 8, 2, 13)[3]), 1e-6)
        browser.key("Escape")
        self.assertEqual(self.view().all(".pinned"), [])
        browser.key("End")
        self.assertIn("chosen", self.right()[12].attribute("class"))
        browser.key("Home")
        self.assertIn("chosen", self.right()[0].attribute("class"))

    def test_keys_choose_heads(self):
        self.show("head")
        self.view().all(".head")[4]._js("e.focus()")
        browser.key("Space")
        self.assertEqual(self.heads(), [4, 8])
        browser.key("Shift", "Enter")
        self.assertEqual(self.heads(), [4])

    def test_screen_readers_get_a_description(self):
        self.show("head")
        self.assertEqual(self.view().attribute("aria-label"), "Head view")
        self.assertEqual(self.view().find(".readout").attribute("aria-live"), "polite")
        for side, name in (("left", "Attending tokens"), ("right", "Tokens attended to")):
            column = self.view().find(f".tokens.{side}")
            self.assertEqual(column.attribute("role"), "listbox")
            self.assertEqual(column.attribute("aria-label"), name)
        self.assertEqual(self.view().all(".head")[8].attribute("aria-label"), "Head 8")
        self.assertEqual(self.view().find("canvas").attribute("aria-hidden"), "true")


class SeveralTokens(Page):
    def test_weights_of_several_tokens_are_summed(self):
        self.show("head")
        self.left()[1].click()
        browser.click_with("Control", self.left()[4])
        rows = [softmax_row(0, 8, i, 13) for i in (1, 4)]
        sums = [a + b for a, b in zip(*rows)]
        self.assertEqual([e.text for e in self.view().all(".pinned")], ["time", "an"])
        self.assertEqual(self.view().find(".readout p").text, "time #1 + an #4 → ")
        for told, expected in zip(self.numbers(), sorted(sums, reverse=True)):
            self.assertLessEqual(abs(told - expected), 2e-6)
        self.right()[3].point()
        self.assertLessEqual(abs(self.numbers()[0] - sums[3]), 2e-6)
        browser.click_with("Control", self.left()[1])
        self.assertEqual([e.text for e in self.view().all(".pinned")], ["an"])
        browser.click_with("Shift", self.left()[8])
        self.assertEqual(len(self.view().all(".pinned")), 5)
        self.assertIn("5 tokens → ", self.view().find(".readout p").text)
        self.left()[0].click()
        self.assertEqual([e.text for e in self.view().all(".pinned")], ["[CLS]"])

    def test_lines_of_several_tokens_are_drawn(self):
        self.show("head")
        canvas = self.view().find("canvas")
        self.left()[1].click()
        browser.click_with("Control", self.left()[4])
        for i in range(13):
            seen = ink(canvas, 1, (i + 0.5) * ROW, 5)
            self.assertEqual(seen > 0.2, i in (1, 4), f"lines of {i}")

    def test_keys_select_several(self):
        self.show("head")
        self.left()[2]._js("e.focus()")
        browser.key("Enter")
        browser.key("ArrowDown")
        browser.key("Control", "Enter")
        self.assertEqual([e.text for e in self.view().all(".pinned")], ["flies", "like"])


class LongTexts(Page):
    def test_an_entry_of_the_readout_scrolls_to_its_token(self):
        self.show("long_head")
        self.left()[5].click()
        link = self.view().all(".readout .link")[0]
        name = link.text
        link.click()
        item = next(e for e in self.right() if e.text == name)
        self.assertTrue(0 <= item.box["y"] <= 1000, "the token is on the screen")
        self.assertEqual([e.text for e in self.view().all(".pinned")], ["t5"], "it stays selected")

    def test_targets_off_the_screen_are_announced(self):
        self.show("long_head")
        self.view().all(".head")[0].double_click()
        i = max(range(20), key=lambda n: max(softmax_row(0, 0, n, 512, 40)[200:400]))
        self.left()[i].click()
        row = softmax_row(0, 0, i, 512, 40)
        height = browser.script("return innerHeight")
        top = self.view().find(".stage").box["y"]
        last = int((height - top) // ROW)
        j = max(range(last, 512), key=lambda n: row[n])
        self.assertGreater(row[j], 0.03)
        self.check_edge("below", "▼", row, j)
        self.assertFalse(self.view().find(".edge.above").shown)
        self.right()[500]._js("e.scrollIntoView({ behavior: 'instant' })")
        browser.frame()
        first = math.ceil(-self.view().find(".stage").box["y"] / ROW)
        j = max(range(first), key=lambda n: row[n])
        j = self.check_edge("above", "▲", row, j)
        self.view().find(".edge.above").click()
        self.assertTrue(0 <= self.right()[j].box["y"] <= height)

    def check_edge(self, where, arrow, row, largest):
        """Checks what an edge of the screen says. Weights of long texts have two digits."""
        edge = self.view().find(f".edge.{where}")
        self.assertTrue(edge.shown)
        told = re.fullmatch(rf"{arrow} t(\d+) #\1 ([\d.]+)", edge.text)
        self.assertTrue(told, edge.text)
        self.assertLessEqual(abs(row[int(told[1])] - row[largest]), 0.06 * row[largest])
        self.assertLessEqual(abs(float(told[2]) - row[largest]), 0.06 * row[largest])
        return int(told[1])

    def test_no_announcement_for_short_texts(self):
        self.show("head")
        self.left()[5].click()
        self.assertFalse(any(e.shown for e in self.view().all(".edge")))

    def test_a_long_heading_is_cut(self):
        self.show_changed("<h1>Heads</h1>", f"<h1>{'many words ' * 400}</h1>")
        browser.wait("section.view")
        self.assertLess(browser.find("h1").box["height"], 75)

    def test_thumbnails_are_not_full(self):
        """Means of groups have as much colour as the weights of a short text."""
        shares = []
        for name in ("model", "long_model"):
            self.show(name)
            canvas = self.view().find(".cell canvas")
            box = canvas.box
            pixels = canvas.pixels(0, 0, int(box["width"]), int(box["height"]))
            shares.append(sum(p[3] for p in pixels) / 255 / len(pixels))
        self.assertLess(shares[1], 0.6)
        self.assertGreater(shares[1], 0.02)


# ---- The heat map --------------------------------------------------------------------------------

class HeatMap(Page):
    TOKENS = ["[CLS]", "time", "flies", "like", "[SEP]"]
    HEADS = 3

    def rows(self, layer):
        return [[softmax_row(layer, h, i, 5) for i in range(5)] for h in range(self.HEADS)]

    def mean(self, layer):
        rows = self.rows(layer)
        return [[sum(rows[h][i][j] for h in range(3)) / 3 for j in range(5)] for i in range(5)]

    def rollout(self, layer):
        rolled = [[float(i == j) for j in range(5)] for i in range(5)]
        for l in range(layer + 1):
            a = [[(w + (i == j)) / 2 for j, w in enumerate(row)] for i, row in enumerate(self.mean(l))]
            rolled = [[sum(a[i][k] * rolled[k][j] for k in range(5)) for j in range(5)] for i in range(5)]
        return rolled

    def gradient(self, layer):
        rows = self.rows(layer)
        return [[sum(max(rows[h][i][j] * 0.01 * math.sin(1 + layer + h + i + 2 * j), 0) for h in range(3)) / 3
                 for j in range(5)] for i in range(5)]

    def seen(self, view=None):
        """Returns all values that the arrow keys reach, row by row."""
        canvas = (view or self.view()).find(".heat canvas")
        canvas._js("e.focus()")
        browser.key("ArrowDown")
        values = []
        for _ in range(5):
            browser.key("Home")
            row = []
            for _ in range(5):
                row.append(value((view or self.view()).find(".readout p.number").attribute("title")))
                browser.key("ArrowRight")
            values.append(row)
            browser.key("ArrowDown")
        return values

    def check(self, seen, expected):
        for a, b in zip(seen, expected):
            for x, y in zip(a, b):
                self.assertLessEqual(abs(x - y), 2e-6 + 1e-5 * abs(y))

    def test_mean_maximum_and_heads(self):
        self.show("maps")
        self.check(self.seen(), self.mean(0))
        self.select("Head").choose("maximum")
        rows = self.rows(0)
        self.check(self.seen(), [[max(rows[h][i][j] for h in range(3)) for j in range(5)] for i in range(5)])
        self.select("Head").choose("1")
        self.select("Layer").choose("1")
        self.check(self.seen(), self.rows(1)[1])

    def test_rollout_and_gradient(self):
        self.show("maps")
        self.assertEqual(self.select("Map").options(), ["Weights", "Rollout", "Gradient × attention"])
        self.select("Map").choose("Rollout")
        self.select("Layer").choose("1")
        self.check(self.seen(), self.rollout(1))
        self.assertIsNone(self.select("Head"), "a rollout has no heads")
        self.select("Map").choose("Gradient × attention")
        self.check(self.seen(), self.gradient(1))
        self.assertIn("clipped at 0", self.view().text)

    def test_maps_of_the_head_view(self):
        self.show("maps")
        view = self.view(1)
        self.assertEqual(self.select("Map", view)._js("return e.value"), "rollout")
        for i in (0, 3):
            for j in (1, 4):
                self.assertLessEqual(abs(self.weight(i, j, view)[0] - self.rollout(1)[i][j]), 1e-6)
            self.left(view)[i].click()
        self.select("Map", view).choose("Gradient × attention")
        gradient = self.gradient(1)
        self.left(view)[2].click()
        largest = max(max(row) for row in gradient)
        for j in range(5):
            self.right(view)[j].point()
            self.assertLessEqual(abs(self.numbers(view)[0] - gradient[2][j]), 1e-5 * largest)
            shade = self.right(view)[j].style("background-image")
            if gradient[2][j] > 0.01 * largest:
                opacity = float(re.search(r"/ ([\d.e-]+)\)", shade)[1])
                self.assertLessEqual(abs(opacity - gradient[2][j] / largest / 2), 2e-3)

    def cell(self, i, j, view=None):
        """Returns the opacity of the middle of a cell."""
        left, top, size = browser.script("const h = views[0].heat; return [h.left, h.top, h.cell]")
        canvas = self.view().find(".heat canvas")
        return canvas.pixels(left + (j + 0.5) * size, top + (i + 0.5) * size, 1, 1)[0][3] / 255

    def show_with_views(self, name):
        """Shows a page whose script tells the tests the places of its views."""
        text = (pages / f"{name}.html").read_text()
        packed = re.search(r'id="packed">([^<]*)<', text)[1]
        code = gzip.decompress(base64.b64decode(packed)).decode()
        code = code.replace("</script>", "\nself.views = views;</script>")
        told = base64.b64encode(gzip.compress(code.encode())).decode()
        (pages / "changed.html").write_text(text.replace(packed, told))
        self.show("changed")

    def test_cells_are_as_opaque_as_values(self):
        self.show_with_views("maps")
        mean = self.mean(0)
        largest = max(max(row) for row in mean)
        for i in range(5):
            for j in range(5):
                expected = mean[i][j] / largest
                self.assertLessEqual(abs(self.cell(i, j) - (expected if expected >= 1 / 256 else 0)), 0.01)

    def test_threshold(self):
        self.show_with_views("maps")
        slider = self.view().find("input[type=range]")
        slider._js("e.value = 50; e.dispatchEvent(new Event('input'))")
        browser.frame()
        mean = self.mean(0)
        largest = max(max(row) for row in mean)
        for i in range(5):
            for j in range(5):
                self.assertEqual(self.cell(i, j) > 0, mean[i][j] >= largest / 2)
        shown = sum(w >= largest / 2 for row in mean for w in row)
        self.assertIn(f"Cells show {shown} of 25 values", self.view().find(".readout").text)
        self.assertLessEqual(abs(value(self.view().find("output").text) - largest / 2), 1e-3)

    def test_special_tokens_are_hidden(self):
        self.show_with_views("maps")
        self.view().find("input[type=checkbox]").click()
        self.assertIn("of 9 values", self.view().find(".readout").text)
        canvas = self.view().find(".heat canvas")
        canvas._js("e.focus()")
        browser.key("ArrowDown")
        self.assertEqual(self.view().find(".readout p").text, "time #1 → time #1")
        browser.key("End")
        self.assertEqual(self.view().find(".readout p").text, "time #1 → like #3")

    def test_the_pointer_chooses_a_cell(self):
        self.show_with_views("maps")
        left, top, size = browser.script("const h = views[0].heat; return [h.left, h.top, h.cell]")
        canvas = self.view().find(".heat canvas")
        box = canvas.box
        x, y = left + 2.5 * size - box["width"] / 2, top + 3.5 * size - box["height"] / 2
        canvas.click(round(x), round(y))
        browser.point(x=5, y=5)
        self.assertEqual(self.view().find(".readout p").text, "like #3 → flies #2")
        self.assertLessEqual(abs(value(self.view().find(".readout p.number").text) - self.mean(0)[3][2]), 5e-4)
        canvas.click(round(x), round(y))
        browser.point(x=5, y=5)
        self.assertIn("Cells show", self.view().find(".readout").text)

    def test_values_that_are_not_finite_are_crossed(self):
        self.show("nan")
        view = self.view(3)
        view.find(".heat canvas")._js("e.focus()")
        browser.key("ArrowDown")
        browser.key("ArrowRight")
        self.assertEqual(view.find(".readout p.number").text, "NaN")

    def test_long_texts(self):
        self.show_with_views("long_heat")
        row = softmax_row(0, 0, 100, 512, 40)
        largest = max(max(softmax_row(0, 0, i, 512, 40)) for i in range(512))
        j = max(range(512), key=lambda n: row[n])
        self.assertLessEqual(abs(self.cell(100, j) - row[j] / largest), 0.05)


# ---- Sizes, colours, paper -----------------------------------------------------------------------

CONTRASTS = """
const rgb = text => {
  const c = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  c.fillStyle = text;
  c.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = c.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, below) => [0, 1, 2].map(n => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
const light = ([r, g, b]) => [r, g, b].reduce((sum, x, n) => {
  x /= 255;
  return sum + [0.2126, 0.7152, 0.0722][n] * (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
}, 0);
const ground = e => {
  const below = e.parentElement ? ground(e.parentElement) : [255, 255, 255, 1];
  const shades = (e.shades ?? []).map(({ colour, alpha }) => over([...rgb(colour).slice(0, 3), alpha], below));
  const own = over(rgb(getComputedStyle(e).backgroundColor), below);
  e.grounds = shades.length ? shades : [own];
  return own;
};
const faults = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !e.checkVisibility() || e.closest("option, noscript, script"))
    continue;
  ground(e);
  const around = e.closest("li")?.grounds ?? e.grounds;
  for (const back of around) {
    const ink = over(rgb(getComputedStyle(e).color), back);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5)
      faults.push(`${e.tagName}.${e.className} "${walker.currentNode.data.slice(0, 20)}": ${contrast.toFixed(2)}`);
  }
}
return [...new Set(faults)];
"""


class Sizes(Page):
    def tearDown(self):
        browser.no_screen()

    def overflow(self):
        """Returns elements that are wider than what contains them, and the page if it is too wide."""
        return browser.script("""
            const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth ? ["page"] : [];
            for (const card of document.querySelectorAll(".view")) {
              const right = card.getBoundingClientRect().right + 0.5;
              for (const e of card.querySelectorAll("*"))
                if (e.checkVisibility() && !e.closest(".heat, .frame, .grid, option") &&
                    e.getBoundingClientRect().right > right)
                  wide.push(`${e.tagName}.${e.className}`);
            }
            return wide;""")

    def test_nothing_overflows(self):
        for name in ("head", "model", "neuron", "dark", "several", "maps", "translation", "raw", "beside", "long_head"):
            self.show(name)
            for width in (390, 600, 1280, 1920):
                browser.screen(width, 900)
                self.assertEqual(self.overflow(), [], f"{name} at {width}")

    def test_selected_tokens_do_not_overflow_a_phone(self):
        for name in ("head", "several", "model"):
            self.show(name)
            browser.screen(390, 900)
            if name == "model":
                self.view().all(".cell")[5].click()
                self.assertTrue(self.view().find(".detail").shown)
            self.left()[3]._js("e.scrollIntoView()")
            self.left()[3].click()
            self.assertEqual(self.overflow(), [], name)

    def test_the_drawing_uses_the_width(self):
        self.show("head")
        for width, least in ((1280, 0.9), (900, 0.9), (390, 0.85)):
            browser.screen(width, 900)
            body = self.view().find(".lanes").box
            if width == 390:
                right = self.view().find(".stage").box
            else:
                right = self.view().find(".readout").box
            self.assertGreaterEqual(right["x"] + right["width"] - body["x"], least * body["width"], width)
        browser.screen(1280, 900)
        stage = self.view().find(".stage").box
        self.assertGreater(stage["width"], 0.65 * self.view().find(".lanes").box["width"])
        canvas = self.view().find("canvas").box
        self.assertEqual(canvas["width"], self.between())

    def test_contrast(self):
        for name in ("head", "model", "neuron", "several", "maps", "nan", "single", "beside", "u8"):
            for mode in ("Light", "Dark"):
                self.show(name)
                button = self.view().all(".toolbar button")[-1]
                if button.text == mode:
                    button.click()
                self.assertEqual(browser.script(CONTRASTS), [], f"{name} {mode}")
                items = self.view().all(".tokens.left li")
                if items:
                    items[1].click()
                    self.assertEqual(browser.script(CONTRASTS), [], f"{name} {mode}, selected")

    def test_one_mode_for_the_page(self):
        self.show("several")
        self.view(2).all(".toolbar button")[-1].click()
        modes = {self.view(n).attribute("data-mode") for n in range(4)}
        modes.add(browser.find("body").attribute("data-mode"))
        self.assertEqual(len(modes), 1)
        self.assertEqual({self.view(n).all(".toolbar button")[-1].text for n in range(4)},
                         {"Light" if modes == {"dark"} else "Dark"})

    def test_paper(self):
        """On paper, all thumbnails are drawn, boxes are printed, and controls are left out."""
        self.show("several")
        first = self.view(1)
        self.left(first)[2].click()
        browser.screen(720, 900, "print")
        browser.script("dispatchEvent(new Event('beforeprint'))")
        browser.frame()
        self.assertEqual(self.overflow(), [])
        self.assertGreater(self.view(1).find(".stage").box["width"], 600, "uses the paper's width")
        self.assertFalse(any(b.shown for n in range(4) for b in self.view(n).all(".toolbar button")))
        for item in self.right(first):
            self.assertEqual(item.style("print-color-adjust"), "exact")
        self.assertEqual(self.view(1).style("background-color"), "rgb(255, 255, 255)")
        for cell in self.view(2).all(".cell canvas"):
            box = cell.box
            self.assertGreater(ink(cell, 6, box["height"] / 2, int(box["height"] / 2)), 0.1)
        browser.script("dispatchEvent(new Event('afterprint'))")

    def test_rules_of_axe(self):
        source = axe()
        if not source:
            self.skipTest("axe is not installed: pip install axe-core-python")
        for name in ("head", "model", "neuron", "dark", "several", "maps", "nan", "raw", "beside"):
            self.show(name)
            browser.script(source)
            faults = browser.post("execute/async", args=[], script="""
                const done = arguments[0];
                axe.run(document).then(r => done(r.violations.map(v =>
                  `${v.id}: ${v.nodes.slice(0, 2).map(n => n.html.slice(0, 90)).join(" | ")}`)))""")
            self.assertEqual(faults, [], name)


def axe():
    """Returns the source of axe, from the package axe-core-python, or None."""
    try:
        import axe_core_python
    except ImportError:
        return None
    found = list(pathlib.Path(axe_core_python.__file__).parent.glob("axe.min.js"))
    return found[0].read_text() if found else None


# ---- Saved pictures ------------------------------------------------------------------------------

class Saved(Page):
    SVG = "{http://www.w3.org/2000/svg}"

    def save(self, view, name):
        """Clicks the button of a format. Returns the saved file."""
        folder = pages / "saved"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        browser.downloads_to(folder)
        next(b for b in view.all("button.save") if b.text == name).click()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            done = [f for f in folder.iterdir() if f.suffix == f".{name.lower()}" and f.stat().st_size]
            if done:
                return done[0]
            time.sleep(0.02)
        self.fail("nothing was saved")

    def texts_of(self, root):
        return ["".join(t.itertext()) for t in root.iter(f"{self.SVG}text")]

    def test_svg_of_a_head(self):
        self.show("head")
        self.left()[2].click()
        browser.point(x=5, y=5)
        path = self.save(self.view(), "SVG")
        self.assertEqual(path.name, "head-view-all-layer-0-head-8.svg")
        root = xml.etree.ElementTree.parse(path).getroot()
        texts = self.texts_of(root)
        self.assertEqual(texts[0], "Head view, All, layer 0, head 8")
        self.assertEqual(texts.count("flies"), 7, "two on each side, and three in the read-out")
        self.assertNotIn("Dark", texts)
        lines = [p for p in root.iter(f"{self.SVG}path")]
        row = softmax_row(0, 8, 2, 13)
        self.assertEqual(len(lines), sum(w >= 1 / 512 for w in row))
        opacities = sorted(float(p.get("opacity")) for p in lines)
        for seen, w in zip(opacities, sorted(w for w in row if w >= 1 / 512)):
            self.assertAlmostEqual(seen, w, delta=1e-3)

    def test_svg_of_every_view(self):
        for name in ("several", "maps", "nan", "raw", "pretty", "translation"):
            self.show(name)
            for view in browser.all("section.view"):
                root = xml.etree.ElementTree.parse(self.save(view, "SVG")).getroot()
                self.assertGreater(len(self.texts_of(root)), 3)

    def test_svg_of_a_heat_map(self):
        self.show("maps")
        root = xml.etree.ElementTree.parse(self.save(self.view(), "SVG")).getroot()
        texts = self.texts_of(root)
        self.assertEqual([texts.count(t) for t in ("Key", "Query", "time", "[SEP]")], [1, 1, 2, 2])
        cells = [r for r in root.iter(f"{self.SVG}rect") if r.get("opacity")]
        self.assertGreater(len(cells), 15)

    def test_png(self):
        self.show("head")
        data = self.save(self.view(), "PNG").read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        width = int.from_bytes(data[16:20], "big")
        body = self.view().find(".lanes").box["width"]
        self.assertLessEqual(abs(width - 2 * (math.ceil(body + 32))), 2, "twice as large as on the screen")
        self.assertGreater(len(data), 10000)


# ---- The model view ------------------------------------------------------------------------------

class ModelView(Page):
    def cell(self, layer, head, view=None):
        return (view or self.view()).find(f".cell[title='Layer {layer}, Head {head}']")

    def test_a_picture_for_each_head(self):
        self.show("model")
        self.assertEqual(len(self.view().all(".cell")), 48)
        axis = self.texts(self.view().all(".axis"))
        self.assertEqual(axis, ["Head"] + [str(n) for n in range(12)] + ["Layer", "0", "1", "2", "3"])
        first, last = self.cell(0, 0).box, self.cell(0, 11).box
        inside = self.view().find(".model").box
        self.assertLessEqual(last["x"] + last["width"], inside["x"] + inside["width"])
        self.assertGreater(last["x"] + last["width"] - first["x"], 0.85 * inside["width"], "uses the width")

    def test_pictures_show_the_weights(self):
        self.show("model")
        for layer, head in ((0, 0), (2, 7), (3, 11)):
            canvas = self.cell(layer, head).find("canvas")
            box = canvas.box
            pitch = box["height"] / 13
            for i in (0, 6, 12):
                row = softmax_row(layer, head, i, 13)
                total = ink(canvas, 5, (i + 0.5) * pitch, 2)
                seen = sum(w for w in row if w >= 0.02)
                self.assertGreater(total, 0.5 * min(seen, 1))

    def test_click_opens_closes_and_replaces(self):
        self.show("model")
        self.cell(1, 5).click()
        detail = self.view().find(".detail")
        self.assertEqual(detail.find("h2").text, "Layer 1, Head 5")
        self.assertEqual(detail.attribute("role"), "dialog")
        self.assertEqual(self.cell(1, 5).attribute("aria-expanded"), "true")
        self.assertEqual(detail.style("border-top-color"), self.cell(1, 5).style("border-top-color"))
        self.cell(1, 5).click()
        self.assertEqual(self.view().all(".detail"), [])
        self.cell(1, 5).click()
        self.cell(2, 2).click()
        self.assertEqual(self.texts(self.view().all(".detail h2")), ["Layer 2, Head 2"])
        self.assertEqual(self.cell(1, 5).attribute("aria-expanded"), "false")
        self.view().find(".detail button").click()
        self.assertEqual(self.view().all(".detail"), [])

    def test_detail_stays_inside(self):
        self.show("model")
        around = self.view().box
        for layer, head in ((0, 0), (0, 11), (3, 0), (3, 11), (1, 6), (2, 5)):
            self.cell(layer, head)._js("e.click()")
            browser.frame()
            box = self.view().find(".detail").box
            self.assertGreaterEqual(box["x"], around["x"])
            self.assertLessEqual(box["x"] + box["width"], around["x"] + around["width"])
            self.assertGreaterEqual(box["y"], around["y"])
            own = self.view().box
            self.assertLessEqual(box["y"] + box["height"], own["y"] + own["height"])

    def test_detail_has_tokens_and_weights(self):
        self.show("model")
        self.cell(2, 4).click()
        detail = self.view().find(".detail")
        self.assertEqual(self.texts(self.left(detail)), PAIR)
        self.left(detail)[3].point()
        self.assertIn("chosen", self.left(detail)[3].attribute("class"), "the token is marked")
        canvas = detail.find(".stage canvas")
        self.assertEqual(ink(canvas, 1, 8.5 * ROW, 5), 0, "others' lines are gone")
        self.assertGreater(ink(canvas, 1, 3.5 * ROW, 10), 0.3)
        self.assertEqual(detail._js("return e.scrollWidth - e.clientWidth"), 0, "nothing is cut")
        row = softmax_row(2, 4, 3, 13)
        self.assertLessEqual(abs(max(row) - self.numbers(detail)[0]), 1e-6)
        self.assertLessEqual(abs(self.weight(3, 7, detail)[0] - row[7]), 1e-6)

    def test_filter_closes_and_the_next_click_counts(self):
        self.show("model")
        self.cell(1, 1).click()
        self.select("Attention").choose("Sentence B → Sentence A")
        self.assertEqual(self.view().all(".detail"), [])
        self.cell(1, 1).click()
        detail = self.view().find(".detail")
        self.assertEqual(self.texts(self.left(detail)), PAIR[B:])
        self.assertEqual(self.texts(self.right(detail)), PAIR[:B])
        self.assertLessEqual(abs(self.weight(2, 3, detail)[0] - softmax_row(1, 1, B + 2, 13)[3]), 1e-6)

    def test_colours_are_the_layers(self):
        self.show("model")
        colours = [self.cell(n, 0)._js("return e.style.getPropertyValue('--colour')") for n in range(4)]
        self.assertEqual(len(set(colours)), 4)

    def test_numbers_can_be_read_in_the_dark(self):
        self.show("model")
        self.view().all(".toolbar button")[-1].click()
        shades = [sum(float(x) for x in re.findall(r"[\d.]+", element.style(name))[:3])
                  for element, name in ((self.view().all(".axis")[3], "color"),
                                        (self.view(), "background-color"))]
        self.assertGreater(shades[0] - shades[1], 250)

    def test_included_layers_and_heads(self):
        self.show("some")
        view = self.view(1)
        self.assertEqual(self.texts(view.all(".axis")), ["Head", "0", "2", "Layer", "1", "3"])
        self.assertEqual([c.attribute("title") for c in view.all(".cell")],
                         [f"Layer {n}, Head {h}" for n in (1, 3) for h in (0, 2)])

    def test_keys(self):
        self.show("model")
        self.cell(0, 0)._js("e.focus()")
        for name in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
            browser.key(name)
        self.assertEqual(self.view().find(".detail h2").text, "Layer 1, Head 2")
        browser.key("Escape")
        self.assertEqual(self.view().all(".detail"), [])


# ---- The neuron view -----------------------------------------------------------------------------

# Columns of vectors of 16 neurons; a neuron is 6 pixels wide.
QUERY, KEY, PRODUCT, DOT, SOFTMAX, NEURON, NROW = 10, 170, 288, 410, 472, 6, 26


class NeuronView(Page):
    def expand(self, view=None):
        for button in (view or self.view()).all("button"):
            if "Expand" in button.text or "Collapse" in button.text:
                button.click()
                return button
        raise AssertionError("no button")

    def canvas(self):
        return self.view().find("canvas")

    def opacity(self, x, row):
        return self.canvas().pixels(x, (row + 0.5) * NROW, 1, 1)[0]

    def tip(self, x, row):
        """Returns the tooltip at x and row of the canvas."""
        box = self.canvas().box
        self.canvas().point(x=round(x - box["width"] / 2), y=round((row + 0.5) * NROW - box["height"] / 2))
        tip = self.view().find(".tip")
        return tip.text if tip.shown else None

    def test_initial_state_follows_the_options(self):
        self.show("neuron")
        self.assertEqual(self.select("Layer")._js("return e.value"), "0")
        self.assertEqual(self.select("Head")._js("return e.value"), "8")
        self.assertEqual(self.view().attribute("data-mode"), "light")
        self.assertEqual(self.select("Attention").options(), ["All"] +
                         [f"Sentence {p} → Sentence {q}" for p, q in ("AA", "AB", "BA", "BB")])

    def test_collapsed(self):
        self.show("neuron")
        self.check_rows(lambda i: softmax_row(0, 8, i, 13))
        self.left()[4].point()
        row = softmax_row(0, 8, 4, 13)
        j = max(range(13), key=lambda n: row[n])
        self.assertNotEqual(self.right()[j].style("background-image"), "none")
        between = self.between()
        y = (4.5 + (j - 4) * (between - 3.5) / between) * NROW
        expected = line_ink(row[j], 4, j, NROW, between)
        self.assertLessEqual(abs(ink(self.canvas(), between - 4, y, 9) - expected), 0.05 * expected + 0.05)

    def test_the_control_is_always_there(self):
        self.show("neuron")
        button = self.expand()
        self.assertEqual(button.attribute("aria-expanded"), "true")
        self.assertEqual(self.texts(self.view().all(".columns span")),
                         ["Query q", "Key k", "q × k", "q ∙ k", "Softmax"])
        self.expand()
        self.assertEqual(self.view().all(".columns span"), [])

    def test_columns_show_the_computation(self):
        self.show("neuron")
        self.expand()
        i = 2
        self.left()[i].point()
        q = query(0, 8, i)
        for n in range(SIZE):
            self.check_cell(QUERY, i, n, q[n])
        for j in range(13):
            k = key(0, 8, j)
            for n in range(0, SIZE, 5):
                self.check_cell(KEY, j, n, k[n])
                self.check_cell(PRODUCT, j, n, q[n] * k[n])
            scaled = dot(0, 8, i, j) / math.sqrt(SIZE)
            self.check_fill(DOT + 10, j, scaled, math.tanh(abs(scaled) / 4))
            weight = softmax_row(0, 8, i, 13)[j]
            self.check_fill(SOFTMAX + 10, j, weight, weight)

    def check_cell(self, column, row, n, x):
        self.check_fill(column + n * NEURON + NEURON / 2, row, x, math.tanh(abs(x) / 4))

    def check_fill(self, x, row, sign, opacity):
        red, _, blue, alpha = self.opacity(x, row)
        self.assertLessEqual(abs(alpha / 255 - opacity), 0.01)
        if alpha > 60:
            self.assertEqual(blue > red, sign >= 0, "blue is positive, orange negative")

    def test_connectors(self):
        self.show("neuron")
        self.expand()
        i = 6
        self.left()[i].point()
        row = softmax_row(0, 8, i, 13)
        x = KEY - 6
        for j in range(13):
            y = (i + 0.5 + (j - i) * (x + 0.5 - QUERY - 96) / 64) * NROW
            expected = line_ink(math.tanh(1.8 * row[j]), i, j, NROW, 64)
            reach = 4 if expected < 0.5 else 12
            self.assertLessEqual(abs(ink(self.canvas(), x, y, reach) - expected), 0.1 * expected + 0.4)

    def test_values_are_displayed(self):
        self.show("neuron")
        self.expand()
        i, j, n = 5, 9, 3
        self.left()[i].point()
        q, k = query(0, 8, i)[n], key(0, 8, j)[n]

        def told(text, pattern):
            found = re.fullmatch(pattern, text)
            self.assertTrue(found, text)
            return [value(x) for x in found.groups()]

        at = n * NEURON + 3
        self.check_close(told(self.tip(QUERY + at, i), r"query of arrow, neuron 3: (\S+)"), [q])
        self.check_close(told(self.tip(KEY + at, j), r"key of like, neuron 3: (\S+)"), [k])
        self.check_close(told(self.tip(PRODUCT + at, j), r"neuron 3: (\S+) × (\S+) = (\S+)"), [q, k, q * k])
        whole = dot(0, 8, i, j)
        self.check_close(told(self.tip(DOT + 9, j), r"q ∙ k = (\S+), divided by √16: (\S+)"), [whole, whole / 4])
        self.check_close(told(self.tip(SOFTMAX + 9, j), r"softmax: (\S+)"), [softmax_row(0, 8, i, 13)[j]])
        self.assertIsNone(self.tip(KEY - 30, j))

    def check_close(self, told, expected):
        for a, b in zip(told, expected):
            self.assertLessEqual(abs(a - b), 5e-6 * abs(b) + 2e-6)

    def test_no_token_selected_can_be_read(self):
        for name, mode in (("neuron", "light"), ("dark", "dark")):
            self.show(name)
            if name == "neuron":
                self.expand()
            text = self.view().find(".nothing")
            self.assertTrue(text.shown)
            self.assertIn("No token selected", text.text)
            colours = [re.findall(r"[\d.]+", e) for e in (text.style("color"),
                                                          self.view().style("background-color"))]
            ink_, card = [sum(float(x) for x in c[:3]) for c in colours]
            self.assertGreater(abs(ink_ - card), 400, f"{mode}: {colours}")
            self.left()[0].point()
            self.assertFalse(text.shown)

    def test_state_is_kept(self):
        self.show("neuron")
        self.expand()
        self.select("Layer").choose("3")
        self.select("Head").choose("2")
        self.select("Attention").choose("Sentence A → Sentence B")
        self.assertEqual(len(self.view().all(".columns span")), 5, "still open")
        self.left()[1].point()
        for j, name in enumerate(PAIR[B:]):
            self.assertEqual(self.right()[j].text, name)
            self.check_cell(KEY, j, 4, key(3, 2, B + j)[4])
            self.check_cell(PRODUCT, j, 4, query(3, 2, 1)[4] * key(3, 2, B + j)[4])
        self.assertLessEqual(abs(self.weight(1, 2)[0] - softmax_row(3, 2, 1, 13)[B + 2]), 1e-6)

    def test_filters_reassemble(self):
        self.show("neuron")
        row = {}
        for p, q in ("AA", "AB", "BA", "BB"):
            self.select("Attention").choose(f"Sentence {p} → Sentence {q}")
            for i in range(len(self.left())):
                self.left()[i].click()
                for j in range(len(self.right())):
                    self.right()[j].point()
                    row.setdefault(i + (B if p == "B" else 0), {})[j + (B if q == "B" else 0)] = \
                        self.numbers()[0]
                self.left()[i].click()
        for i in range(13):
            self.assertLessEqual(abs(sum(row[i].values()) - 1), 1e-5, "rows sum to 1")
            whole = softmax_row(0, 8, i, 13)
            for j in range(13):
                self.assertLessEqual(abs(row[i][j] - whole[j]), 1e-6)

    def test_causal_products_are_hidden(self):
        self.show("causal")
        self.assertEqual(self.texts(self.left()), ["once", " upon", " a", " time"])
        self.left()[1].point()
        for j in range(4):
            hidden = j > 1
            inked = [self.opacity(PRODUCT + n * NEURON + 3, j)[3] for n in range(SIZE)]
            self.assertEqual(max(inked) == 0, hidden)
            self.assertEqual(self.opacity(DOT + 10, j)[3] == 0, hidden)
            self.check_cell(KEY, j, 2, key(0, 0, j)[2])
        self.assertIsNone(self.tip(DOT + 9, 3))
        self.assertIsNotNone(self.tip(DOT + 9, 1))

    def test_two_on_a_page(self):
        self.show("several")
        first, second = self.view(0), self.view(3)
        self.assertEqual(len(first.all(".columns span")), 5)
        self.assertEqual(second.all(".columns span"), [])
        self.expand(second)
        self.expand(first)
        self.assertEqual(first.all(".columns span"), [])
        self.assertEqual(len(second.all(".columns span")), 5)
        self.assertEqual(self.select("Layer", second)._js("return e.value"), "2")
        self.assertLessEqual(abs(self.weight(3, 3, second)[0] - softmax_row(2, 8, 3, 13)[3]), 1e-6)
        self.assertEqual(first.all(".pinned"), [], "the other view is not touched")
        self.assertEqual([e.find("h2").text for e in browser.all("section.view")],
                         ["Neuron view", "Head view", "Model view", "Neuron view"])


# ---- Encoders with decoders ----------------------------------------------------------------------

class Translation(Page):
    FROM = ["the", "house", "is", "small"]
    TO = ["(begin)", "das", "Haus", "ist", "klein"]

    def test_parts(self):
        self.show("translation")
        for n in range(3):
            view = self.view(n)
            self.assertEqual(self.select("Attention", view).options(), ["Encoder", "Decoder", "Cross"])
        for part, left, right in (("Encoder", self.FROM, self.FROM), ("Decoder", self.TO, self.TO),
                                  ("Cross", self.TO, self.FROM)):
            for n in (0, 2):
                view = self.view(n)
                self.select("Attention", view).choose(part)
                self.assertEqual(self.texts(self.left(view)), left)
                self.assertEqual(self.texts(self.right(view)), right)

    def test_depths_may_differ(self):
        self.show("translation")
        self.assertEqual(self.select("Layer").options(), ["0", "1", "2"])
        self.assertEqual(self.select("Layer")._js("return e.value"), "2")
        self.select("Attention").choose("Decoder")
        self.assertEqual(self.select("Layer").options(), ["0", "1"])
        self.assertLessEqual(abs(self.weight(3, 2)[0] - softmax_row(0, 0, 3, 5, causal=True)[2]), 1)
        self.assertEqual(len(self.view(1).all(".cell")), 12)
        self.select("Attention", self.view(1)).choose("Cross")
        self.assertEqual(len(self.view(1).all(".cell")), 4)

    def test_parts_without_an_included_layer_are_not_offered(self):
        self.show("deep")
        for n in range(3):
            self.assertIsNone(self.select("Attention", self.view(n)))
            if n != 1:
                self.assertEqual(self.texts(self.left(self.view(n))), self.FROM)

    def test_cross_weights(self):
        self.show("translation")
        view = self.view(2)
        self.select("Attention", view).choose("Cross")
        self.check_rows(lambda i: softmax_row(0, 0, i, 4), view)

    def test_cross_alone(self):
        self.show("cross")
        self.assertIsNone(self.select("Attention"))
        self.assertEqual(self.texts(self.left()), self.TO)
        self.assertEqual(self.texts(self.right()), self.FROM)


# ---- Tokens --------------------------------------------------------------------------------------

class Tokens(Page):
    EXACT = ["</script><script>document.title='broken'</script>", "<!--<script>", "a\u2028b\u2029c",
             "\"quoted\" 'and' \\back\\", "&amp;<b>bold</b>", "\x01\t\x7f", "", "שלום", "مرحبا!",
             "\U0001f469\u200d\U0001f680", "bad\ufffd\ufffd", "Ġtime", "▁time", "time</w>", "##ing", "▁", "\n", "e\u0301\u0300\u0323"]

    def test_exact(self):
        self.show("raw")
        self.assertEqual(self.texts(self.left()), self.EXACT)
        self.assertEqual(self.texts(self.right()), self.EXACT)
        self.assertEqual(browser.find("h1").text, "</title><script>alert(1)</script> & \"more\"")
        self.assertEqual(browser.script("return document.title"), browser.find("h1").text)

    def test_prettified(self):
        self.show("pretty")
        self.assertEqual(self.texts(self.left())[11:], [" time", " time", "time", "##ing", "␣", "↵",
                                                        "e\u0301\u0300\u0323"])

    def test_right_to_left(self):
        self.show("raw")
        for item in self.left()[7:9]:
            self.assertEqual(item.attribute("dir"), "auto")
            self.assertEqual(item.style("direction"), "rtl")
        self.assertEqual(self.left()[0].style("direction"), "ltr")

    def test_rows_are_even(self):
        self.show("raw")
        heights = {item.box["height"] for item in self.left()}
        self.assertEqual(heights, {ROW})


# ---- Figures --------------------------------------------------------------------------------------

class Figures(unittest.TestCase):
    """Figures that br_attention_svg() writes, read as XML."""
    SVG = "{http://www.w3.org/2000/svg}"

    def read(self, name):
        return xml.etree.ElementTree.parse(pages / f"{name}.svg").getroot()

    def lines(self, group):
        """Returns (x1, y1, x2, y2, opacity) of each line in a group."""
        return [[float(x) for x in re.findall(r"[\d.]+", path.get("d"))] + [float(path.get("opacity"))]
                for path in group.findall(f"{self.SVG}path")]

    def groups(self, name):
        return [g for g in self.read(name).iter(f"{self.SVG}g") if g.get("stroke-width")]

    def texts(self, name):
        return ["".join(t.itertext()) for t in self.read(name).iter(f"{self.SVG}text")]

    def test_lines_of_a_token(self):
        group, = self.groups("token")
        row = softmax_row(0, 8, 2, 13)
        lines = self.lines(group)
        self.assertEqual(len(lines), sum(w >= 1 / 512 for w in row))
        top = lines[0][1] - 2.5 * ROW
        for x1, y1, x2, y2, opacity in lines:
            self.assertAlmostEqual(opacity, row[round((y2 - top) / ROW - 0.5)], delta=6e-4)
            self.assertEqual(y1, lines[0][1])
        self.assertEqual(group.get("stroke"), "#a3a122")
        bold = [t.text for t in self.read("token").iter(f"{self.SVG}text") if t.get("font-weight")]
        self.assertEqual(bold, ["flies"])
        self.assertIn("A < B", self.texts("token"))
        self.assertIn("layer 0, head 8", self.texts("token"))

    def test_lines_of_all_tokens(self):
        """The lines and the note are those of the page."""
        groups = self.groups("heads")
        self.assertEqual(len({g.get("stroke") for g in groups}), 12)
        weights = [w for h in range(12) for i in range(13) for w in softmax_row(0, h, i, 13)]
        cutoff = min(n / 100 for n in range(1, 100) if sum(w >= n / 100 for w in weights) <= 6 * 13)
        opacities = sorted(line[4] for g in groups for line in self.lines(g))
        for seen, weight in zip(opacities, sorted(w for w in weights if w >= cutoff), strict=True):
            self.assertAlmostEqual(seen, weight, delta=6e-4)
        self.assertIn(f"{len(opacities)} of 2028 weights, at least {cutoff}", self.texts("heads"))
        drawn = [self.lines(g) for g in groups]
        starts = [lines[0][1] % ROW for lines in drawn if lines]
        self.assertGreater(len(starts), 6)
        self.assertEqual(len(set(starts)), len(starts), "lines of heads lie side by side")

    def test_axes_of_the_model_view(self):
        texts = self.texts("model")
        self.assertEqual(texts[:2], ["Head", "Layer"])
        self.assertEqual(texts[2:14], [str(n) for n in range(12)])
        self.assertEqual(texts[14:], ["0", "1", "2", "3"])

    def test_thumbnails_show_weights(self):
        groups = self.groups("model")
        self.assertEqual(len(groups), 48)
        for layer, head in ((0, 0), (2, 7), (3, 11)):
            seen = [line[4] for line in self.lines(groups[12 * layer + head])]
            shown = [w for i in range(13) for w in softmax_row(layer, head, i, 13) if w >= 0.02]
            for a, b in zip(seen, shown, strict=True):
                self.assertAlmostEqual(a, b, delta=6e-3)

    def test_thumbnails_of_long_texts_are_not_full(self):
        """The opacities of the lines from one place sum to 1 at most, however long the text is."""
        for group in self.groups("long_model"):
            sums = {}
            for _, y, _, _, opacity in self.lines(group):
                sums[y] = sums.get(y, 0) + opacity
            self.assertLess(max(sums.values()), 1.2)
            self.assertGreater(max(sums.values()), 0.2)

    def cells(self, name):
        return [float(r.get("opacity")) for r in self.read(name).iter(f"{self.SVG}rect") if r.get("opacity")]

    def test_heat_maps(self):
        maps = HeatMap()
        for name, values in (("heatmap", maps.mean(0)), ("gradient", maps.gradient(0))):
            flat = [w for row in values for w in row]
            shown = [w / max(flat) for w in flat if w / max(flat) >= 1 / 256]
            for seen, expected in zip(self.cells(name), shown, strict=True):
                self.assertAlmostEqual(seen, expected, delta=1e-3)
            texts = self.texts(name)
            self.assertEqual([texts.count(t) for t in ("key", "query", "time")], [1, 1, 2])
            self.assertIn(f"{max(flat):.3g}", texts)
        self.assertIn("layer 0, mean of all heads", self.texts("heatmap"))
        self.assertIn("gradient × attention, layer 0", self.texts("gradient"))

    def test_values_that_are_not_finite_are_crossed(self):
        crosses = [p for p in self.read("nan_heat").iter(f"{self.SVG}path")]
        self.assertEqual(len(crosses), 1)
        self.assertIn("1 weights are not finite and are missing", self.texts("nan_heat"))

    def test_hostile_tokens(self):
        texts = self.texts("raw")
        self.assertIn("&amp;<b>bold</b>", texts)
        self.assertIn("</script><script>document.t…", texts, "long tokens are cut")
        self.assertTrue(any(t.startswith("</title>") for t in texts))

    def test_one_token(self):
        for name in ("one_head", "one_model", "one_heat"):
            self.assertIn("0" if name == "one_model" else "alone", self.texts(name))

    def test_weights_that_are_not_finite_are_told(self):
        self.assertIn("2 weights are not finite and are missing", self.texts("nan"))


# ---- The page ------------------------------------------------------------------------------------

class WholePage(Page):
    ADDRESS = r"https?://|@import|url\(|src="

    def test_no_address_is_in_any_file(self):
        for path in pages.glob("*.html"):
            if not path.name.startswith(("long", "changed")):
                self.assertNotRegex(path.read_text(), self.ADDRESS, path.name)

    def test_no_address_is_in_what_is_packed(self):
        packed = re.search(r'id="packed">([^<]*)<', (pages / "head.html").read_text())[1]
        text = gzip.decompress(base64.b64decode(packed, validate=True)).decode()
        self.assertRegex(text, r"(?s)^<style>.*</style><script type=\"module\">.*</script>$")
        self.assertNotRegex(text, self.ADDRESS)

    def test_inside_another_page(self):
        """The page in an iframe, as notebooks show it."""
        text = html.escape((pages / "head.html").read_text())
        (pages / "changed.html").write_text(f'<iframe sandbox="allow-scripts" srcdoc="{text}"></iframe>')
        browser.open(pages / "changed.html")
        browser.inside(browser.find("iframe"))
        browser.wait("section.view")
        self.assertEqual(self.texts(self.left()), PAIR)
        self.assertEqual(self.left()[0].box["height"], ROW)
        self.check_quiet()

    def test_old_browsers_get_a_message(self):
        self.show_changed("<title>", "<script>delete self.DecompressionStream</script><title>")
        browser.wait("main:not(:empty)")
        self.assertIn("need a newer browser: Chrome", browser.find("main").text)
        self.check_quiet()

    def test_failures_are_displayed(self):
        for old, new, error in (('"kind":"head"', '"kind":"tail"', "not a constructor"),
                                ('id="packed">H4sI', 'id="packed">H4sJ', "TypeError")):
            self.show_changed(old, new)
            complaints, end = [], time.monotonic() + 60
            while not complaints and time.monotonic() < end:
                complaints = browser.complaints()
            self.assertIn(error, " ".join(complaints))

    def test_nan_weights_are_displayed(self):
        self.show("nan")
        for n in range(4):
            self.assertIn("2 of 18 weights are not finite; they are drawn as missing",
                          self.view(n).find(".alarm").text)
        view = self.view(2)
        self.left(view)[0].point()
        self.assertEqual(view.find(".readout td.number").text, "NaN")

    def test_views_side_by_side(self):
        self.show("beside")
        boxes = [self.view(n).box for n in range(4)]
        self.assertEqual(boxes[0]["y"], boxes[1]["y"])
        self.assertGreaterEqual(boxes[1]["x"], boxes[0]["x"] + boxes[0]["width"])
        self.assertGreaterEqual(boxes[2]["y"], boxes[0]["y"] + boxes[0]["height"])
        self.assertEqual(self.texts(browser.all(".subject")), ["one two three", "<b>uno</b> due quattro"] * 2)
        self.assertEqual(self.view(1).attribute("aria-label"), "Head view: <b>uno</b> due quattro")
        for n in range(2):
            self.assertLessEqual(abs(self.weight(0, 2, self.view(n))[0] - softmax_row(0, 0, 0, 3, 2 + n)[2]), 1e-6)
        browser.screen(900, 900)
        boxes = [self.view(n).box for n in range(2)]
        self.assertGreaterEqual(boxes[1]["y"], boxes[0]["y"] + boxes[0]["height"], "one column if it is narrow")
        browser.no_screen()

    def test_one_token(self):
        self.show("one")
        for n in (0, 2):
            self.assertEqual(self.weight(0, 0, self.view(n))[0], 1)
        self.view(1).find(".cell").click()
        self.assertEqual(self.texts(self.left(self.view(1))), ["alone"])
        view = self.view(3)
        view.find(".heat canvas")._js("e.focus()")
        browser.key("ArrowDown")
        self.assertEqual(view.find(".readout p").text, "alone #0 → alone #0")
        self.assertEqual(view.find(".readout p.number").text, "1.00")

    def test_light_and_dark(self):
        self.show("head")

        def brightness():
            return sum(float(x) for x in re.findall(r"[\d.]+", self.view().style("background-color"))[:3])

        button = self.view().all(".toolbar button")[-1]
        self.assertEqual(button.text, "Dark")
        self.assertGreater(brightness(), 600)
        button.click()
        self.assertLess(brightness(), 200)
        self.assertEqual(button.text, "Light")
        self.show("dark")
        self.assertLess(brightness(), 200)

    def test_precisions(self):
        for name, tolerance, told in (("f32", 6e-6, 0), ("f16", 6e-3, 0), ("u8", 7e-2, 1)):
            self.show(name)
            row = softmax_row(0, 0, 4, 13, 12)
            self.left()[4].click()
            for j in range(13):
                self.right()[j].point()
                told_weight = self.view().all(".readout td.number")[0].attribute("title")
                expected = row[j] if name != "u8" or row[j] >= 1.02e-3 else 0
                if name == "u8" and 0.98e-3 < row[j] < 1.02e-3:
                    continue
                self.assertLessEqual(abs(value(told_weight) - expected), tolerance * expected + 6e-8)
            self.assertEqual("are omitted" in self.view().text, bool(told))

    def test_hundreds_of_tokens(self):
        for name in ("long_head", "long_model", "long_neuron"):
            self.assertLess((pages / f"{name}.html").stat().st_size, 48e6)
            self.show(name)
        self.show("long_head")
        self.assertEqual(len(self.left()), 512)
        for i in range(5):
            self.left()[i].point()
        row = softmax_row(0, 0, 5, 512, 40)
        largest = max(range(512), key=lambda j: row[j])
        self.left()[5].click()
        self.right()[largest].point()
        self.assertLessEqual(abs(self.numbers()[0] / row[largest] - 1), 0.03)

    def test_scrolled_lines_are_drawn(self):
        self.show("long_head")
        self.left()[500].point()
        browser.frame()
        canvas = self.view().find("canvas")
        top = float(canvas.style("top")[:-2])
        self.assertLess(canvas.box["height"], 4096)
        self.assertGreater(top, 5000)
        self.assertGreater(ink(canvas, 2, 500.5 * ROW - top, 10), 0.02)


def keep_screenshots(folder):
    """Saves the pictures for the documentation."""
    folder.mkdir(parents=True, exist_ok=True)
    browser.resize(1300, 1000)
    browser.open(pages / "head.html")
    browser.wait("section.view")
    browser.all(".heads button")[-1].click()
    browser.all(".tokens.left li")[2].point()
    browser.screenshot(folder / "head.png")
    browser.open(pages / "model.html")
    browser.wait("section.view")
    browser.find(".cell[title='Layer 2, Head 4']").click()
    browser.all(".detail .tokens.left li")[2].point()
    browser.screenshot(folder / "model.png")
    browser.open(pages / "dark.html")
    browser.wait("section.view")
    browser.all(".tokens.left li")[2].point()
    browser.screenshot(folder / "neuron.png")
    browser.open(pages / "translation.html")
    browser.wait("section.view")
    browser.screenshot(folder / "translation.png")


def main():
    global browser, pages
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        pages = pathlib.Path(folder)
        subprocess.run([build / "brasa_pages", folder], check=True)
        browser = Browser()
        try:
            if "SCREENSHOTS" in os.environ:
                keep_screenshots(pathlib.Path(os.environ["SCREENSHOTS"]))
            ran = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False)
        finally:
            browser.close()
    sys.exit(not ran.result.wasSuccessful())


if __name__ == "__main__":
    main()
