#!/usr/bin/env python3
"""Turns bare git repositories into a JSON-lines corpus of source files with their symbols.

usage: corpus.py OUT.jsonl [--megabytes N] GIT_DIR...        GIT_DIR: .../owner+name/repo
A line is {"repo", "path", "text", "syms": [[name, kind, first line, last line], ...]}, lines counted from 1. Of a
repository with more than N megabytes of text, runs of 40 neighbouring files are drawn. Needs git and Universal Ctags.
"""
import argparse
import json
import os
import random
import re
import subprocess
import tempfile

ENDINGS = {'.py', '.c', '.cc', '.cpp', '.h', '.hpp', '.go', '.rs', '.js', '.mjs', '.ts', '.java', '.kt', '.md', '.rst',
           '.toml', '.cmake', '.sh', '.proto', '.sql'}
LEFT_OUT = re.compile(
    r'(^|/)(vendor|third[-_]?party|3rd[-_]?party|bundled|node_modules|dist|testdata|fixtures|generated|gen|extern|'
    r'external|locale|translations|snapshots|__snapshots__|golden|_vendor)(/|$)|\.min\.js$|\.pb\.(go|cc|h)$|_pb2\.py$|'
    r'lock$|CHANGELOG|ChangeLog|changelog|HISTORY|NEWS')
KINDS = {'function', 'method', 'class', 'struct', 'interface', 'enum', 'macro', 'typedef', 'constant', 'variable',
         'member', 'trait', 'implementation', 'union', 'alias', 'func', 'type', 'const', 'var', 'generator',
         'prototype'}
SMALLEST, LARGEST, LONGEST_LINE = 200, 80_000, 500
RUN = 40
WHOLE = float('inf')


def listed(git_dir):
    """(path, object id, bytes) of the files that may be taken."""
    out = subprocess.run(['git', '--git-dir', git_dir, 'ls-tree', '-r', '-l', '-z', 'HEAD'], capture_output=True,
                         check=True).stdout
    for row in out.split(b'\0'):
        if not row:
            continue
        about, path = row.split(b'\t', 1)
        mode, kind, name, size = about.split()
        try:
            path = path.decode()
        except UnicodeDecodeError:
            continue
        if kind == b'blob' and mode != b'120000' and size.isdigit() and SMALLEST <= int(size) <= LARGEST \
                and os.path.splitext(path)[1] in ENDINGS and not LEFT_OUT.search(path):
            yield path, name.decode(), int(size)


def contents(git_dir, names):
    p = subprocess.Popen(['git', '--git-dir', git_dir, 'cat-file', '--batch'], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    for name in names:
        p.stdin.write(name.encode() + b'\n')
        p.stdin.flush()
        head = p.stdout.readline().split()
        if len(head) < 3:
            yield None
            continue
        data = p.stdout.read(int(head[2]))
        p.stdout.read(1)
        yield data
    p.stdin.close()
    p.wait()


def readable(data, path):
    """The text of a file, None for one that is none or holds what a program wrote."""
    try:
        text = data.decode('utf-8') if data is not None else '\0'
    except UnicodeDecodeError:
        return None
    text = text.replace('\r\n', '\n')
    if path.endswith('.md'):
        text = text.expandtabs(4)
    return None if '\0' in text or max(map(len, text.split('\n'))) > LONGEST_LINE else text


def drawn(files, limit, rng):
    """Runs of neighbouring files until they hold `limit` bytes."""
    runs = [files[i:i + RUN] for i in range(0, len(files), RUN)]
    order, taken, size = list(range(len(runs))), set(), 0
    rng.shuffle(order)
    for i in order:
        taken.add(i)
        size += sum(f[2] for f in runs[i])
        if size > limit:
            break
    return [f for i, run in enumerate(runs) if i in taken for f in run]


def with_symbols(git_dir, limit, rng):
    """The rows of one repository, in the order of its tree; files without symbols only now and then."""
    repo = os.path.basename(os.path.dirname(os.path.abspath(git_dir))).replace('+', '/')
    files, rows = drawn(list(listed(git_dir)), limit, rng), {}
    with tempfile.TemporaryDirectory() as folder:
        for (path, *_), data in zip(files, contents(git_dir, [name for _, name, _ in files])):
            text = readable(data, path)
            if text is None:
                continue
            rows[path] = {'repo': repo, 'path': path, 'text': text, 'syms': []}
            target = os.path.join(folder, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, 'w', encoding='utf-8') as f:
                f.write(text)
        names = os.path.join(folder, '.list')
        with open(names, 'w', encoding='utf-8') as f:
            f.write('\n'.join(rows))
        tags = subprocess.run(['ctags', '--output-format=json', '--fields=+neK', '--sort=no', '-L', names, '-f', '-'],
                              cwd=folder, capture_output=True, text=True, errors='replace').stdout
    for line in tags.splitlines():
        try:
            tag = json.loads(line)
        except ValueError:
            continue
        if tag.get('_type') == 'tag' and tag.get('kind') in KINDS and tag['path'] in rows \
                and not tag['name'].startswith('__anon') and len(tag['name']) >= 3:
            rows[tag['path']]['syms'].append([tag['name'], tag['kind'], tag['line'], tag.get('end', tag['line'])])
    return [r for r in rows.values() if limit == WHOLE or r['syms'] or rng.random() < 0.35]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out')
    parser.add_argument('repositories', nargs='+')
    parser.add_argument('--megabytes', type=float)
    args = parser.parse_args()
    rng = random.Random(5)
    with open(args.out, 'w', encoding='utf-8') as out:
        for git_dir in args.repositories:
            rows = with_symbols(git_dir, args.megabytes * 1e6 if args.megabytes else WHOLE, rng)
            for row in rows:
                out.write(json.dumps(row, ensure_ascii=False, separators=(',', ':')) + '\n')
            print(git_dir, len(rows), 'files', f"{sum(len(r['text']) for r in rows) / 1e6:.1f} MB", flush=True)


if __name__ == '__main__':
    main()
