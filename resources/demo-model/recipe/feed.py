"""Batches for the trainer: worker processes that draw samples from a corpus, and their order."""
import json
import lzma
import os
import queue
import random
import time
import traceback

import numpy as np

import samples as S
from sources import Coder, File

TOKENS = 65536  # of one step on one GPU; one row where rows are longer
AHEAD = 3  # tokens past a row that targets and drafts need
# Until which share of the time, rows of which lengths. A model that begins anew needs short contexts first, where the
# hop from a name over its file to the path forms; one that goes on from another does not, and forgets long contexts
# where few rows are long.
PLAN = [(1.0, {4096: 0.28, 16384: 0.32, 65536: 0.295, 131072: 0.09, 262144: 0.015})]
RENAMING, EXCHANGING = 0.7, 0.5  # shares of contexts with other paths and with other names
LENGTHS = sorted({length for _, shares in PLAN for length in shares})


def length_of(step, fraction):
    """The row length of a step: the same on every GPU, evenly mixed."""
    shares = next(shares for end, shares in PLAN if fraction < end or end == 1.0)
    at, total = (step * 0.6180339887498949) % 1.0, 0.0
    for length, share in shares.items():
        total += share
        if at < total:
            break
    return length


def load_corpus(paths, tokenizer, patience=0.0):
    """{repository: [File]} of JSON lines as corpus.py writes them, tokenized; files are waited for `patience` s."""
    repos, until = {}, time.time() + patience
    for path in paths:
        while not os.path.exists(path) and time.time() < until:
            time.sleep(0.2)
        if not os.path.exists(path):
            print('not there:', path, flush=True)
            continue
        files = []
        with (lzma.open if path.endswith('.xz') else open)(path, 'rt', encoding='utf-8') as f:
            for line in f:
                d = json.loads(line)
                files.append(File(d['path'], d['text'], d['syms']))
                repos.setdefault(d['repo'], []).append(files[-1])
        for i in range(0, len(files), 2048):
            part = files[i:i + 2048]
            coded = tokenizer.encode_batch(['\n' + f.text + '\n' for f in part], add_special_tokens=False)
            for f, c in zip(part, coded):
                f.ids = np.array(c.ids, dtype=np.uint16)
        print(f'{path}: {sum(len(f.ids) for f in files) / 1e6:.1f}M tokens in {len(files)} files', flush=True)
    return {name: fs for name, fs in repos.items() if len(fs) >= 8}


def work(repos, all_names, tokenizer_path, seed, counter, fraction, out):
    """Draws the batches of one GPU: (step, rows of ids, their weights)."""
    os.environ['TOKENIZERS_PARALLELISM'] = 'false'
    from tokenizers import Tokenizer
    builder = S.Builder(repos, Coder(Tokenizer.from_file(tokenizer_path)), random.Random(seed), RENAMING, EXCHANGING,
                        all_names)
    while True:
        with counter.get_lock():
            step = counter.value
            counter.value += 1
        length = length_of(step, fraction.value)
        rows = []
        while len(rows) < max(1, TOKENS // length):
            try:
                rows.append(builder.sample(length + AHEAD))
            except Exception:
                traceback.print_exc()
        out.put((step, np.stack([r[0] for r in rows]), np.stack([r[1] for r in rows])))


class Feed:
    """Batches in the order of their steps; one that does not come within half a minute is left out."""

    def __init__(self, source):
        self.source, self.waiting, self.next = source, {}, 0

    def get(self):
        patience = time.time() + 30
        while True:
            if self.next in self.waiting:
                self.next += 1
                return self.waiting.pop(self.next - 1)
            try:
                step, ids, weights = self.source.get(timeout=1)
                if step >= self.next:
                    self.waiting[step] = (ids, weights)
            except queue.Empty:
                pass
            if time.time() > patience and self.waiting:
                self.next, patience = min(self.waiting), time.time() + 30
                print('a batch was lost', flush=True)
