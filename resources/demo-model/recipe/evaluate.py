#!/usr/bin/env python3
"""Whole answers exactly right, on repositories that were never trained on.

usage: evaluate.py build HELD.jsonl[.xz] TOKENIZER.json SETS.pickle      draws the questions once
       evaluate.py run SETS.pickle OUT.json [--only=SET ...] NAME=MODEL[:bf16][:v1] ...      asks each model the same
MODEL is a folder or a training checkpoint (.pt); weights are int4 unless `:bf16` follows. `:v1` compares with the
answers that v1 was trained to give: every line that uses a name, definitions in the order of the symbol table, two
lines before a line asked for. Answers are checked by teacher forcing: every token of the true answer must be the
likeliest one, which is when greedy decoding gives that answer. Drafts are counted where all before were right.
"""
import json
import lzma
import pickle
import random
import sys
import time

import numpy as np

import samples as S

POINTED = ('where', 'show', 'params', 'missing')
GATHERED = ('lists', 'uses')
# name: (tokens, which kinds must reach how many questions, kinds asked or all)
SETS = {'4K': (4096, POINTED, 400, None), '16K': (16384, POINTED, 400, None),
        '16K lists and uses': (16384, GATHERED, 220, {'lists': 1, 'uses': 1}),
        '64K': (65536, POINTED, 230, None), '128K': (131072, POINTED, 205, None)}


def read(path):
    repos = {}
    with (lzma.open if path.endswith('.xz') else open)(path, 'rt', encoding='utf-8') as f:
        for line in f:
            d = json.loads(line)
            repos.setdefault(d['repo'], []).append(S.File(d['path'], d['text'], d['syms']))
    return repos


def asked_both_ways(context):
    """(kind, question, answer, answer as v1 gives it), or None."""
    state = context.rng.getstate()
    context.past = True
    old = context.question()
    context.rng.setstate(state)
    context.past = False
    new = context.question()
    return new + (old[2],) if new and old and new[:2] == old[:2] else None


def draw(builder, tokens, kinds):
    """One context with up to ten questions, as v0 was evaluated."""
    context = builder.context(tokens - 1200, kinds)
    ids = builder.render(context)
    if len(ids) < 0.9 * (tokens - 1200):  # small repositories do not fill long contexts
        return draw(builder, tokens, kinds)
    turns, used = [], len(ids)
    for _ in range(30):
        asked = asked_both_ways(context)
        if not asked:
            continue
        kind, question, answer, old = asked
        paths = [w.path for w in context.windows if w.path in answer]
        head, new_ids, weights = builder.turn(question, answer, paths)
        used += len(head) + len(new_ids) + 1
        if used > tokens or len(turns) == 10:
            break
        turns.append((kind, head, new_ids, builder.turn(question, old)[1], weights == S.POINTING))
    return (context.repo, np.array(ids, dtype=np.uint16), turns) if turns else draw(builder, tokens, kinds)


def build(held, tokenizer_path, out):
    from tokenizers import Tokenizer
    repos, coder = read(held), S.Coder(Tokenizer.from_file(tokenizer_path))
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
    with open(out, 'wb') as f:
        pickle.dump((sets, coder.encode('\n')), f)


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
    return name, model, 'v1' in flags


def ask(model, drawn, closing, old_answers, device):
    """Per kind [asked, exact, paths and first token right]; accepted drafts; answer tokens right."""
    import torch
    kinds, drafts, tokens = {}, [[0, 0] for _ in range(3)], [0, 0]
    for _, base, turns in drawn:
        ids, spans = base.tolist(), []
        for kind, head, new, old, key in turns:
            answer = old if old_answers else new
            spans.append((kind, len(ids) + len(head), len(ids) + len(head) + len(answer), key))
            ids += head + answer + closing
        x = torch.tensor([ids], device=device)
        with torch.no_grad():
            hidden = model.hidden(x)
            rows = torch.cat([torch.arange(a - 1, z - 1) for _, a, z, _ in spans]).to(device)
            right = torch.zeros(len(ids), dtype=torch.bool, device=device)
            right[rows + 1] = model.head(hidden[rows]).argmax(-1) == x[0, rows + 1]
            rows = torch.cat([torch.arange(a, max(a, z - 4)) for _, a, z, _ in spans]).to(device)
            good, h = torch.ones(len(rows), dtype=torch.bool, device=device), hidden
            for d in range(3):
                h = model.draft(torch.roll(x, -(d + 1), 1), h)
                good &= model.head(h[rows]).argmax(-1) == x[0, rows + d + 2]
                drafts[d][0] += int(good.sum())
                drafts[d][1] += len(rows)
        right = right.cpu().numpy()
        for kind, a, z, key in spans:
            mark = kinds.setdefault(kind, [0, 0, 0])
            mark[0] += 1
            mark[1] += int(right[a:z].all())
            mark[2] += int(right[a:z][key].all()) if len(key) == z - a else int(right[a:z].all())
            tokens[0] += int(right[a:z].sum())
            tokens[1] += z - a
    return kinds, [a / max(1, b) for a, b in drafts], tokens[0] / max(1, tokens[1])


def run(sets_path, out, specs, only=None):
    import torch
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    with open(sets_path, 'rb') as f:
        sets, closing = pickle.load(f)
    results = {}
    for spec in specs:
        name, model, old_answers = load(spec, device)
        for set_name, drawn in sets.items():
            if only and set_name not in only:
                continue
            began = time.time()
            kinds, drafts, tokens = ask(model, drawn, closing, old_answers, device)
            counted = SETS[set_name][1]
            asked, exact, paths = (sum(kinds.get(k, [0] * 3)[i] for k in counted) for i in range(3))
            results.setdefault(name, {})[set_name] = {
                'asked': asked, 'exact': exact, 'paths': paths, 'kinds': kinds, 'drafts': drafts, 'tokens': tokens}
            print(f'{name} {set_name}: {"/".join(counted)} {exact}/{asked} = {100 * exact / max(1, asked):.1f}% '
                  f'(paths {100 * paths / max(1, asked):.1f}%), all {sum(k[1] for k in kinds.values())}/'
                  f'{sum(k[0] for k in kinds.values())}, drafts {" / ".join(f"{100 * d:.1f}" for d in drafts)}, '
                  f'tokens {100 * tokens:.2f}%; '
                  + ' '.join(f'{k} {v[1]}/{v[0]}' for k, v in sorted(kinds.items()))
                  + f' ({time.time() - began:.0f} s)', flush=True)
            with open(out, 'w') as f:
                json.dump(results, f, indent=1)
        del model


if __name__ == '__main__':
    if len(sys.argv) >= 5 and sys.argv[1] == 'build':
        build(*sys.argv[2:5])
    elif len(sys.argv) >= 5 and sys.argv[1] == 'run':
        only_sets = [a[7:] for a in sys.argv if a.startswith('--only=')]
        run(sys.argv[2], sys.argv[3], [a for a in sys.argv[4:] if not a.startswith('--')], only_sets)
    else:
        sys.exit(__doc__)
