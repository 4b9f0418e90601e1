"""Files of a corpus, the windows of them that stand in a context, and their tokens."""
import numpy as np

SPECIALS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|repo_name|>', '<|file_sep|>', '<think>', '</think>',
            '<|fim_pad|>']


class File:
    """`ids` are the tokens of a line break, the text and another line break: what follows the path in a prompt."""
    __slots__ = ('path', 'text', 'symbols', 'ids')

    def __init__(self, path, text, symbols, ids=None):
        self.path, self.text, self.symbols, self.ids = path, text, symbols, ids


class Window:
    """Lines [lo, hi) of a file as they stand in a context, under `path`; `ids` hold the path too."""
    __slots__ = ('file', 'path', 'lines', 'lo', 'hi', 'ids')

    def __init__(self, file, path, lines, lo, hi, ids):
        self.file, self.path, self.lines, self.lo, self.hi, self.ids = file, path, lines, lo, hi, ids

    def text(self):
        return '\n'.join(self.lines[self.lo:self.hi])


class Coder:
    """Text to token ids, with what cutting files at line breaks needs."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.special = {s: tokenizer.token_to_id(s) for s in SPECIALS}
        size = max(self.special.values()) + 1
        pieces = [tokenizer.id_to_token(i) or '' for i in range(size)]
        self.line_breaks = np.array([p.count('\u010a') for p in pieces], dtype=np.int32)  # byte 10, byte-level
        self.new_line = np.array(self.encode('\n'), dtype=np.uint16)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def encode_with_starts(self, text):
        """Ids, and the character each of them begins at."""
        coded = self.tokenizer.encode(text, add_special_tokens=False)
        return coded.ids, [o[0] for o in coded.offsets]

    def line_starts(self, ids):
        """(line, token index) of each line of a File's ids that a token begins at."""
        at = np.flatnonzero(self.line_breaks[ids])
        return np.cumsum(self.line_breaks[ids[at]]) - 1, at + 1


def runs_of_three(ids):
    """Each run of three ids as one number."""
    ids = ids.astype(np.int64)
    return ids[:-2] << 28 | ids[1:-1] << 14 | ids[2:]


def forks(ids):
    """Runs of three ids that go on in more than one way, sorted."""
    after = np.unique(runs_of_three(ids)[:-1] << 14 | ids[3:].astype(np.int64)) >> 14
    return np.unique(after[1:][after[1:] == after[:-1]])
