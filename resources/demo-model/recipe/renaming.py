"""Other paths and other names for one context, so that they are read and not remembered."""
import collections
import re

import numpy as np

from sources import File, Window

DEFINITIONS = {'function', 'method', 'class', 'struct', 'interface', 'enum', 'macro', 'trait', 'union', 'func', 'type',
               'const', 'generator', 'typedef', 'alias'}
IDENTIFIER = re.compile(r'\b[A-Za-z_]\w*')
PIECE = re.compile(r'[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+')  # a word or a number of a name
# Names that stay what they are, so that an exchanged text still looks like its language.
KEYWORDS = frozenset(
    'abstract alignas alignof and any array as asm assert async atomic await auto base begin bool boolean break byte '
    'case catch chan char class cls companion complex concept const constexpr continue crate data debugger decltype '
    'declare def default defer defined del delete do done double dyn dynamic elif else elseif elsif end endforeach '
    'endfunction endif endmacro endwhile enum except explicit export extends extern fallthrough false False final '
    'finally float for foreach friend from fn fun func function global go goto if impl implements import in include '
    'inline instanceof int interface internal is it lambda let local long loop macro main map match message mod module '
    'move mut mutable namespace native new nil noexcept none None nonlocal not null nullptr number object of open '
    'operator option optional or out override package pass pragma private protected pub public raise range ref '
    'register repeated require return rune self Self set short signed sizeof static std str string String struct super '
    'suspend switch synchronized syntax template then this throw throws trait transient true True try type typedef '
    'typeid typename typeof undef undefined union unsafe unsigned use using val var vararg virtual void volatile when '
    'where while with yield error Result Option Some Ok Err Vec Box Rc Arc Object Exception int8 int16 int32 int64 '
    'uint8 uint16 uint32 uint64 int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ssize_t '
    'usize isize float32 float64 uintptr uintptr_t args kwargs super list dict tuple'.split())
HABITUAL = frozenset('get set is to from new of with test tests on has init add for the and not by in'.split())


class Renamer:
    """Other names for the folders and files of one context, so that paths are read and not remembered."""

    def __init__(self, words, rng):
        self.words, self.rng, self.folders, self.taken, self.paths = words, rng, {}, set(), []
        self.keep = rng.random() * 0.7

    def word(self, old):
        return old if self.rng.random() < self.keep else self.rng.choice(self.words)

    def __call__(self, path):
        *folders, name = path.split('/')
        for folder in folders:
            if folder not in self.folders:
                self.folders[folder] = self.word(folder)
        folders = [self.folders[f] for f in folders]
        stem, dot, ending = name.rpartition('.')
        stem = self.word(stem)
        if self.paths and self.rng.random() < 0.35:  # nearly the same as another one
            other = self.rng.choice(self.paths)
            *other_folders, other_name = other.split('/')
            other_stem = other_name.rpartition('.')[0]
            how = self.rng.randrange(4)
            if how == 0:
                stem = other_stem
            elif how == 1:
                folders, stem = other_folders, other_stem + self.rng.choice(['_test', '2', '_impl', 's', '_utils'])
            elif how == 2:
                folders = other_folders + [self.rng.choice(self.words)]
            else:
                folders, stem = other_folders[:-1] + [self.rng.choice(self.words)], other_stem
        new = '/'.join(folders + [stem + dot + ending])
        if new in self.taken or not stem:
            new = path
        self.taken.add(new)
        self.paths.append(new)
        return new


def style(name):
    """What names that may stand for each other have in common."""
    core = name.strip('_')
    return name[0] == '_', '_' in core, core[:1].isupper(), core.isupper(), core.islower()


class Names:
    """The names that each repository defines, those of all by their style, and the words that they are made of."""

    def __init__(self, repos):
        self.known, styles, count = {}, {}, collections.Counter()
        for repo in sorted(repos):
            names = {s[0] for f in repos[repo] for s in f.symbols}
            names = {n for n in names if 4 <= len(n) <= 40 and n.isascii() and n.isidentifier()
                     and n not in KEYWORDS and not n.startswith(('__', 'Anonymous', 'anon'))}
            self.known[repo] = names
            for name in names:
                styles.setdefault(style(name), set()).add(name)
                count.update({p.lower() for p in PIECE.findall(name) if p.isalpha() and 3 <= len(p) <= 12})
        self.by_style = {k: sorted(v) for k, v in styles.items()}
        self.words = sorted(w for w, n in count.items() if n >= 4)


class Exchange:
    """Other names for what one context defines and uses, so that names are read and not remembered: words of names
    are exchanged everywhere alike, or whole names for those of other repositories; some come near to another one,
    and some definitions get one name."""

    def __init__(self, names, repo, windows, rng):
        self.names, self.rng, self.words = names, rng, {}
        self.keep, self.worded, share = rng.random() * 0.5, rng.random(), rng.uniform(0.5, 1.0)
        self.new, self.made = {}, []
        present = set()
        for w in windows:
            present.update(IDENTIFIER.findall(w.text()))
        taken = set(present)
        for old in sorted(present & names.known[repo]):
            if rng.random() < share:
                new = self.name(old)
                if new not in taken and new not in KEYWORDS:
                    taken.add(new)
                    self.made.append(new)
                    self.new[old] = new
        self.merge(windows)

    def piece(self, match):
        piece = match.group()
        if len(piece) < 3 or not piece.isalpha():
            return piece
        word = piece.lower()
        if word not in self.words:
            keep = 0.7 if word in HABITUAL else self.keep
            self.words[word] = word if self.rng.random() < keep else self.rng.choice(self.names.words)
        word = self.words[word]
        return word.upper() if piece.isupper() else word.capitalize() if piece[0].isupper() else word

    def name(self, old):
        rng = self.rng
        if self.made and rng.random() < 0.08:  # nearly the same as another one
            other, word = rng.choice(self.made), rng.choice(self.names.words)
            if other.isupper():
                return other + '_' + word.upper()
            return other + (word.capitalize() if other[0].isupper() or other.lower() != other else '_' + word)
        if rng.random() < self.worded:
            return PIECE.sub(self.piece, old)
        return rng.choice(self.names.by_style.get(style(old)) or [old])

    def merge(self, windows):
        kinds = {}
        for w in windows:
            for name, kind, first, last in w.file.symbols:
                if kind in DEFINITIONS and w.lo < first and last <= w.hi and name in self.new:
                    kinds.setdefault(name, []).append(kind)
        alike = {}
        for name, found in kinds.items():
            if len(found) == 1:
                alike.setdefault((found[0], style(name)), []).append(name)
        share = self.rng.random() * 0.12
        for names in alike.values():
            self.rng.shuffle(names)
            for i in range(0, len(names) - 2, 3):
                if self.rng.random() < share:
                    for name in names[i + 1:i + self.rng.choice((2, 2, 3))]:
                        self.new[name] = self.new[names[i]]

    def text(self, text):
        get = self.new.get
        return IDENTIFIER.sub(lambda m: get(m.group(), m.group()), text)

    def window(self, w, coder):
        text = self.text(w.text())
        symbols = [[self.new.get(n) or self.text(n), k, a, b] for n, k, a, b in w.file.symbols
                   if a <= w.hi and b > w.lo]
        ids = np.array(coder.encode(w.path) + coder.encode('\n' + text + '\n'), dtype=np.uint16)
        return Window(File(w.file.path, None, symbols), w.path, [''] * w.lo + text.split('\n'), w.lo, w.hi, ids)
