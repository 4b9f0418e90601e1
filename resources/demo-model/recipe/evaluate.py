#!/usr/bin/env python3
"""Whole answers exactly right, on repositories that were never trained on.

usage: evaluate.py build HELD.jsonl[.xz] TOKENIZER.json SETS.json.xz      draws the questions once
       evaluate.py run SETS.json.xz OUT.json [--only=SET ...] NAME=MODEL[:bf16] ...      asks each model the same
MODEL is a folder or a training checkpoint (.pt); weights are int4 unless `:bf16` follows. Answers are checked by
teacher forcing: every token of the true answer must be the likeliest one, which is when greedy decoding gives that
answer. Where one is not, but spells the same text, decoding goes on from it: other tokens of the same text are right
too. Drafts are counted where all before were right. OUT.json also tells where wrong answers went astray.
"""
import json
import lzma
import random
import sys
import time

import numpy as np

import samples as S
from sources import Coder, File

POINTED = ('where', 'show', 'params', 'missing')
GATHERED = ('lists', 'uses')
MISSING = ('missing',)
OTHERS = POINTED + ('declared', 'words', 'constructor')
# name: (tokens, which kinds must reach how many questions, kinds asked or all)
SETS = {'4K': (4096, POINTED, 400, None), '16K': (16384, POINTED, 400, None),
        '16K lists and uses': (16384, GATHERED, 220, {'lists': 1, 'uses': 1}),
        '4K missing': (4096, MISSING, 220, {'missing': 1}),  # asked in every way
        '64K': (65536, POINTED, 230, None), '128K': (131072, POINTED, 205, None),
        '4K other words': (4096, OTHERS, 400, S.OTHER_WORDS_KINDS),
        '16K other words': (16384, OTHERS, 250, S.OTHER_WORDS_KINDS)}


def read(path):
    repos = {}
    with (lzma.open if path.endswith('.xz') else open)(path, 'rt', encoding='utf-8') as f:
        for line in f:
            d = json.loads(line)
            repos.setdefault(d['repo'], []).append(File(d['path'], d['text'], d['syms']))
    return repos


def draw(builder, tokens, kinds):
    """One context with up to ten questions, as v0 was evaluated, but none asked twice."""
    context = builder.context(tokens - 1200, kinds)
    context.other_words = kinds == S.OTHER_WORDS_KINDS
    context.every_way = kinds == {'missing': 1} or context.other_words
    ids = builder.render(context)
    if len(ids) < 0.9 * (tokens - 1200):  # small repositories do not fill long contexts
        return draw(builder, tokens, kinds)
    turns, used = [], len(ids)
    for _ in range(30):
        asked = context.question()
        if not asked:
            continue
        kind, question, answer = asked
        paths = [w.path for w in context.windows if w.path in answer]
        head, answer_ids, weights = builder.turn(question, answer, paths)
        used += len(head) + len(answer_ids) + 1
        if used > tokens or len(turns) == 10:
            break
        turns.append((kind, head, answer_ids, np.flatnonzero(weights == S.POINTING).tolist()))
    return (context.repo, ids, turns) if turns else draw(builder, tokens, kinds)


def build(held, tokenizer_path, out):
    """SETS.json.xz: {"sets": {name: [[repository, ids, [[kind, question's ids, answer's ids, where it points], ...]],
    ...]}, "closing": ids between turns, "pieces": the text of each id}."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(tokenizer_path)
    repos, coder = read(held), Coder(tokenizer)
    for files in repos.values():
        for f in files:
            f.ids = np.array(coder.encode('\n' + f.text + '\n'), dtype=np.uint16)
    sets = {}
    for name, (tokens, counted, wanted, kinds) in SETS.items():
        builder, drawn, count = S.Builder(repos, coder, random.Random(7)), [], 0
        while count < wanted:
            drawn.append(draw(builder, tokens, kinds))
            count += sum(t[0] in counted for t in drawn[-1][2])
        sets[name] = drawn
        print(name, len(drawn), 'contexts', count, 'questions', flush=True)
    pieces = [tokenizer.id_to_token(i) or '' for i in range(max(coder.special.values()) + 1)]
    with lzma.open(out, 'wt', encoding='utf-8') as f:
        json.dump({'sets': sets, 'closing': coder.encode('\n'), 'pieces': pieces}, f, separators=(',', ':'))


def load(spec, device):
    import torch
    import model as M
    name, _, path = spec.partition('=')
    path, *flags = path.split(':')
    model = M.load(path, device)
    if 'bf16' not in flags:
        with torch.no_grad():
            for m in model.modules():
                if isinstance(m, M.Linear) and m.quantised:
                    m.weight.copy_(M.fake_int4(m.weight))
    M.Linear.int4 = False
    model.compute = torch.bfloat16 if device == 'cuda' else None
    return name, model


def same_text(model, ids, said, wanted, pieces, device):
    """Whether greedy decoding after `ids`, which gives `said` first, writes the text of `wanted`, the answer's rest."""
    import torch
    text, written, end = ''.join(pieces[i] for i in wanted[:-1]), '', wanted[-1]
    while said != end:
        written += pieces[said]
        if not pieces[said] or not text.startswith(written):
            return False
        ids = ids + [said]
        with torch.no_grad():
            said = int(model.head(model.hidden(torch.tensor([ids], device=device))[-1:]).argmax())
    return written == text


def ask(model, drawn, closing, pieces, device):
    """Per kind [asked, exact, paths and first token right, exact token by token]; accepted drafts; answer tokens right;
    of each answer that differs [context, turn, kind, repository, at which token, said, wanted, is its text right].
    """
    import torch
    kinds, drafts, tokens, wrong = {}, [[0, 0] for _ in range(3)], [0, 0], []
    for context, (repo, base, turns) in enumerate(drawn):
        ids, spans = list(base), []
        for kind, head, answer, key in turns:
            spans.append((kind, len(ids) + len(head), len(ids) + len(head) + len(answer), key))
            ids += head + answer + closing
        x = torch.tensor([ids], device=device)
        with torch.no_grad():
            hidden = model.hidden(x)
            rows = torch.cat([torch.arange(a - 1, z - 1) for _, a, z, _ in spans]).to(device)
            likeliest = torch.zeros(len(ids), dtype=torch.long, device=device)
            likeliest[rows + 1] = model.head(hidden[rows]).argmax(-1)
            rows = torch.cat([torch.arange(a, max(a, z - 4)) for _, a, z, _ in spans]).to(device)
            good, h = torch.ones(len(rows), dtype=torch.bool, device=device), hidden
            for d in range(3):
                h = model.draft(torch.roll(x, -(d + 1), 1), h)
                good &= model.head(h[rows]).argmax(-1) == x[0, rows + d + 2]
                drafts[d][0] += int(good.sum())
                drafts[d][1] += len(rows)
        likeliest = likeliest.cpu().numpy()
        right = likeliest == np.array(ids)
        for turn, (kind, a, z, key) in enumerate(spans):
            mark = kinds.setdefault(kind, [0, 0, 0, 0])
            by_token = bool(right[a:z].all())
            exact = by_token
            if not exact:
                at = a + int(np.flatnonzero(~right[a:z])[0])
                exact = same_text(model, ids[:at], int(likeliest[at]), ids[at:z], pieces, device)
                wrong.append([context, turn, kind, repo, at - a, int(likeliest[at]), ids[at], exact])
            mark[0] += 1
            mark[1] += exact
            mark[2] += exact or bool(right[a:z][key].all())
            mark[3] += by_token
            tokens[0] += int(right[a:z].sum())
            tokens[1] += z - a
    return kinds, [a / max(1, b) for a, b in drafts], tokens[0] / max(1, tokens[1]), wrong


def run(sets_path, out, specs, only=None):
    import torch
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    with lzma.open(sets_path, 'rt', encoding='utf-8') as f:
        stored = json.load(f)
    sets, closing, pieces = (stored[k] for k in ('sets', 'closing', 'pieces'))
    results = {}
    for spec in specs:
        name, model = load(spec, device)
        for set_name, drawn in sets.items():
            if only and set_name not in only:
                continue
            began = time.time()
            kinds, drafts, tokens, wrong = ask(model, drawn, closing, pieces, device)
            counted = SETS[set_name][1]
            asked, exact, paths, by_token = (sum(kinds.get(k, [0] * 4)[i] for k in counted) for i in range(4))
            results.setdefault(name, {})[set_name] = {
                'asked': asked, 'exact': exact, 'paths': paths, 'by token': by_token, 'kinds': kinds, 'drafts': drafts,
                'tokens': tokens, 'wrong': wrong}
            print(f'{name} {set_name}: {"/".join(counted)} {exact}/{asked} = {100 * exact / max(1, asked):.1f}% '
                  f'(by token {by_token}, paths {100 * paths / max(1, asked):.1f}%), '
                  f'all {sum(k[1] for k in kinds.values())}/{sum(k[0] for k in kinds.values())}, '
                  f'drafts {" / ".join(f"{100 * d:.1f}" for d in drafts)}, tokens {100 * tokens:.2f}%; '
                  + ' '.join(f'{k} {v[1]}/{v[0]}' for k, v in sorted(kinds.items()))
                  + f' ({time.time() - began:.0f} s)', flush=True)
            with open(out, 'w') as f:
                json.dump(results, f)
        del model


if __name__ == '__main__':
    if len(sys.argv) >= 5 and sys.argv[1] == 'build':
        build(*sys.argv[2:5])
    elif len(sys.argv) >= 5 and sys.argv[1] == 'run':
        only_sets = [a[7:] for a in sys.argv if a.startswith('--only=')]
        run(sys.argv[2], sys.argv[3], [a for a in sys.argv[4:] if not a.startswith('--')], only_sets)
    else:
        sys.exit(__doc__)
