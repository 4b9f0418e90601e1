"""Training and evaluation samples of the demo model: a repository context, then questions whose answers stand in it.

Every answer is computed from the text of the context and its symbol table, so it is exact by construction: where a
symbol is defined or declared, its source, its constructor, its documentation, its signature, what a file defines, who
uses a name, which file holds a line, and "not found" for names that do not occur. `wordings` holds the ways of asking
that only training and the sets of other words know.
"""
import collections
import re

import numpy as np

import wordings
from declarations import declared
from renaming import DEFINITIONS, IDENTIFIER, KEYWORDS, Exchange, Renamer
from sources import Window, forks, runs_of_three

SYSTEM = 'You are Octavo, a code assistant. Answer from the repository below.'
LANGUAGES = {'py': 'python', 'c': 'c', 'cc': 'cpp', 'cpp': 'cpp', 'h': 'cpp', 'hpp': 'cpp', 'go': 'go', 'rs': 'rust',
             'js': 'javascript', 'mjs': 'javascript', 'ts': 'typescript', 'java': 'java', 'kt': 'kotlin',
             'md': 'markdown', 'rst': 'rst', 'toml': 'toml', 'cmake': 'cmake', 'sh': 'bash', 'proto': 'protobuf',
             'sql': 'sql'}
COMMENT = re.compile(r'\s*(//|/\*|\*( |/|$)|#( |$)|--|<!--)')
# What stands around a name where a line defines it, whatever the symbol table says.
MODIFIERS = r'^\s*(?:(?:export|default|pub(?:\([\w: ]+\))?|public|private|protected|internal|static|abstract|final|' \
    r'sealed|async|unsafe|const|constexpr|inline|open|data|template ?<[^{;]*>)\s+)*'
OPENINGS = (MODIFIERS + r'(?:def|fn|func(?: \([^)]*\))?|fun|function\*?|macro_rules!)\s+NAME\b',
            MODIFIERS + r'(?:class|struct|union|enum(?: class)?|trait|interface|type)\s+NAME\b'
                        r'(?!\s*[;*&),>.]|::|\s+\w+\s*[;=,)\[(*])',
            r'^\s*#\s*define\s+NAME\b', r'^\s*using\s+NAME\s*=', r'\bfunction\*?\s+NAME\s*\(',
            r'(?<!\w)NAME\s*[:=]\s*(?:async\s+)?(?:function\b|(?:\w+|\([^()]*\))\s*=>)')
QUESTIONS = {
    'where': ['Where is `{}` defined?', 'where is {} defined', 'Find the definition of `{}`.', 'In which file is `{}`?',
              'Which file defines {}?', 'Where can I find `{}`?', 'Locate {}.'],
    'show': ['Show me `{}`.', 'Show the code of `{}`.', 'Print the implementation of {}.',
             'What does the source of `{}` look like?', 'show {}', 'How is `{}` implemented?',
             'Give me the full definition of `{}`.'],
    'doc': ['What does `{}` do?', 'Explain `{}`.', 'what is {} for', 'What is the purpose of `{}`?',
            'Explain what {} does.'],
    'params': ['What parameters does `{}` take?', 'What is the signature of `{}`?', 'How do I call `{}`?',
               'What are the arguments of {}?'],
    'uses': ['Where is `{}` used?', 'Who uses `{}`?', 'Find the uses of {}.', 'Which code refers to `{}`?'],
    'lists': ['What is defined in `{}`?', 'List the definitions in `{}`.', 'What does {} contain?'],
    'missing': ['Where is `{}` defined?', 'Show me `{}`.', 'What does `{}` do?', 'where is {}']}
OWNERS = ('class', 'struct', 'interface', 'trait', 'implementation', 'enum')
NAMED = ('where', 'show', 'doc', 'params', 'uses')  # kinds that ask about a name
# How often each kind of question is asked. The evaluation asks as v0's did, so that figures can be compared.
EVALUATED_KINDS = {'where': 5, 'show': 6, 'doc': 4, 'lists': 2, 'line': 2, 'uses': 2, 'missing': 1, 'files': 1,
                   'params': 2, 'chat': 1}
TRAINED_KINDS = {'where': 12, 'show': 8, 'doc': 2.5, 'lists': 6, 'line': 2.5, 'uses': 8.5, 'missing': 1.8, 'files': 0.3,
                 'params': 3, 'chat': 0.2, 'declared': 4, 'words': 3, 'constructor': 4}
OTHER_WORDS_KINDS = {'where': 3, 'show': 2, 'params': 2, 'declared': 4, 'words': 3, 'constructor': 4, 'missing': 1}
# Loss weights of answer tokens: those of paths and the first one, those that tell which line is quoted or how many
# definitions there are, those at which a quote can go astray (what stands before them stands elsewhere too and goes on
# otherwise there), and those of gathered lists, of a quote's first characters and of its end. Others weigh 1.
POINTING, CHOOSING, FORKED, CAREFUL = 3, 4, 3.5, 2
OPENING = re.compile(r'```\w+\n|(?<=`: )`')  # what a quote begins after
BLANK = re.compile(r'\n[ \t]*[})\];,]*[ \t]*\n')  # lines after which a quote may seem to end


def defines(line, name):
    """Whether a line looks like the definition of a name."""
    return not COMMENT.match(line) and any(re.search(o.replace('NAME', re.escape(name)), line) for o in OPENINGS)


def fence(path, body):
    return f"```{LANGUAGES.get(path.rsplit('.', 1)[-1], '')}\n{body}\n```"


def signature(lines, start, end, limit=4):
    """The lines that open a definition, up to the one that ends its header."""
    out = []
    for i in range(start, min(end, start + limit)):
        out.append(lines[i])
        if lines[i].rstrip().endswith(('{', ':', ';', ')')):
            break
    return '\n'.join(out).rstrip()


def docstring(lines, start, end):
    """The first sentences of the Python docstring under a definition, '' where there is none."""
    for i in range(start, min(end, start + 8)):
        if not lines[i].rstrip().endswith(':'):
            continue
        j = i + 1
        while j < len(lines) and not lines[j].strip():
            j += 1
        opening = re.match(r'[rRbBuU]?("""|\'\'\')(.*)', lines[j].strip()) if j < len(lines) else None
        if not opening:
            return ''
        quote, body = opening.group(1), [opening.group(2)]
        if quote in body[0]:
            return body[0].split(quote)[0].strip()
        for line in lines[j + 1:j + 6]:
            if quote in line:
                body.append(line.split(quote)[0].strip())
                break
            if not line.strip() and ' '.join(body).strip():
                break
            body.append(line.strip())
        return ' '.join(b for b in body if b).strip()
    return ''


def comment_above(lines, start, first):
    """The first sentence of the comment above a definition, '' where there is none."""
    out, i = [], start - 1
    while i >= first and start - i < 12:
        line = lines[i].strip()
        if line.startswith(('#[', '@', 'template')):
            i -= 1
            continue
        if not (line.startswith(('//', '/*', '*', '#')) or line.endswith('*/')):
            break
        line = re.sub(r'^(///?!?|/\*\*?|\*/|\*|#+)\s?', '', line)
        out.append(re.sub(r'\s*\*/$', '', line).strip())
        i -= 1
    text = ' '.join(x for x in reversed(out) if x and not x.startswith('@') and not set(x) <= set('-=*/# ')).strip()
    if 'Copyright' in text or 'License' in text:
        return ''
    sentence = re.match(r'.{20,280}?[.!?](?=\s|$)', text)
    return sentence.group(0) if sentence else text[:200].strip()


def documentation(lines, start, end, first=0):
    return docstring(lines, start, end) or comment_above(lines, start, first)


class Context:
    """Windows of one repository's files and the questions that can be asked about them."""

    def __init__(self, repo, windows, rng, foreign, hard=False, kinds=None):
        self.repo, self.windows, self.rng, self.foreign, self.hard = repo, windows, rng, foreign, hard
        self.gone = []  # names of the repository that do not stand in this context
        self.every_way = hard  # what is missing is asked for in all kinds of questions
        self.other_words = hard  # half of the questions are asked as `wordings` has them
        kinds = kinds or EVALUATED_KINDS
        self.kinds, self.shares = list(kinds), list(kinds.values())
        self.table, cut = {}, set()
        for w in windows:
            for name, kind, first, last in w.file.symbols:
                first -= 1
                kind = 'method' if kind == 'member' and w.path.endswith('.py') else kind
                if kind in DEFINITIONS and w.lo <= first < w.hi < last:
                    cut.add(name)
                if kind in DEFINITIONS and w.lo <= first < last <= min(w.hi, len(w.lines)) and len(name) > 2 \
                        and not name.startswith(('__', 'Anonymous', 'anon')) \
                        and all(v is not w or at != first for v, _, at, _ in self.table.get(name, ())):  # listed twice
                    self.table.setdefault(name, []).append((w, kind, first, last))
        self.cut = cut
        for name in cut:  # whether a definition that is cut counts cannot be known
            self.table.pop(name, None)
        self.unique = [k for k, v in self.table.items() if len(v) == 1]
        self.few = [k for k, v in self.table.items() if len(v) <= (4 if hard else 3)]
        self.several = [k for k in self.few if len(self.table[k]) > 1]
        self.most = [k for k in self.several if len(self.table[k]) > 2]
        self.mixed = [k for k in self.several if len({wordings.KIND_WORDS[h[1]] for h in self.table[k]}) > 1]
        self.bodies = [w.text() for w in windows]
        self.text = '\n'.join(self.bodies)
        self.asked, self.surely = set(), {}
        self.declared = self.word_sets = self.classes = None  # found out when they are asked about
        self.prototypes, self.twofold = [], []
        self.lines = collections.Counter(line.strip() for body in self.bodies for line in body.split('\n'))

    def question(self):
        """(kind, question, answer), or None where the draw gave none."""
        kind = self.rng.choices(self.kinds, self.shares)[0]
        subject = None
        if kind in NAMED:
            subject = self.subject(kind)
            if subject is None:
                return None
        elif kind in ('lists', 'line'):
            if not self.windows:
                return None
            subject = self.rng.choice(self.windows)
        if subject is not None:
            key = (kind, subject if isinstance(subject, str) else subject.path)
            if kind in NAMED and subject in self.table and not self.certain(subject) \
                    or kind != 'line' and key in self.asked:
                return None
            self.asked.add(key)
            if self.hard and kind in NAMED[:4] and self.opens_line(subject) and self.rng.random() < 0.4:
                return None
        pair = getattr(self, 'ask_' + kind)(subject)
        return (kind,) + pair if pair else None

    def subject(self, kind):
        """A name to ask about, None where there is none."""
        rng, names = self.rng, self.few if kind in ('where', 'uses') else self.unique
        if self.hard:
            if kind == 'uses' and rng.random() < 0.3:
                return self.mentioned()
            if kind in ('where', 'uses'):
                names = self.harder(kind, rng.random(), rng.random()) or names
        if not names:
            return None
        if self.hard and rng.random() < (0.5 if kind == 'where' else 0.3):  # one that stands in many places
            return max(rng.sample(names, min(5, len(names))), key=self.text.count)
        return rng.choice(names)

    def harder(self, kind, chance, which):
        """Names with several definitions, or with one and what could be taken for another."""
        if self.several and chance < (0.35 if kind == 'where' else 0.15):
            return self.most if which < 0.4 else self.mixed if which < 0.65 else self.several
        if kind == 'where' and chance < 0.8:
            self.find_declarations()
            return self.twofold if which < 0.4 else self.unique
        return None

    def mentioned(self):
        """A name that some line holds, wherever it may be defined."""
        for _ in range(8):
            w = self.rng.choice(self.windows)
            found = IDENTIFIER.findall(w.lines[self.rng.randrange(w.lo, min(w.hi, len(w.lines)))])
            found = [n for n in found if len(n) > 5 and n not in KEYWORDS and not n.islower() and n not in self.table]
            if found:
                return self.rng.choice(found)
        return None

    def ask(self, kind, subject, word=None):
        """A question; `word` is the kind of thing that it may call its subject."""
        if self.other_words and kind in wordings.FORMS and (word or kind not in QUESTIONS or self.rng.random() < 0.4):
            return wordings.ask(self.rng, kind, subject, word)
        return self.rng.choice(QUESTIONS[kind]).format(subject)

    def ask_unique(self, kind, name):
        how, hit = self.rng.random() if self.other_words else 1.0, self.table[name][0]
        if how < 0.12:
            return self.ask(kind, self.qualified(name, hit) or name)
        return self.ask(kind, name, wordings.KIND_WORDS[hit[1]] if how < 0.35 else None)

    @staticmethod
    def qualified(name, hit):
        """The name with that of the class, struct or interface it belongs to, None where it has none."""
        w, _, first, last = hit
        said = re.search(r'(\w+)(::|\.)' + re.escape(name) + r'(?!\w)', w.lines[first]) \
            or re.match(r'func \(\w+ \*?(\w+)()', w.lines[first])
        around = [(b - a, n) for n, kind, a, b in w.file.symbols
                  if kind in OWNERS and a - 1 < first and last <= b and n != name]
        if not said and not around:
            return None
        owner = said.group(1) if said else min(around)[1]
        return owner + ('::' if w.path.endswith(('.h', '.hpp', '.cc', '.cpp', '.rs')) else '.') + name

    def opens_line(self, name):
        """Whether little stands before the name where it is defined, so that the quote's beginning is easy."""
        w, _, first, _ = self.table[name][0]
        line = w.lines[first].strip()
        return len(self.table[name]) == 1 and 0 <= line.find(name) <= 9

    def certain(self, name):
        """Whether the definitions known are those that the text shows: the symbol table misses and misplaces some. The
        name must stand in their lines, and no other line may be the same or define the name by its looks."""
        if name not in self.surely:
            lines = [w.lines[first].strip() for w, _, first, _ in self.table[name]]
            bare = name.replace(' ', '')
            self.surely[name] = all(bare in line.replace(' ', '') and self.lines[line] == lines.count(line)
                                    for line in lines) \
                and not any(line.strip() not in lines and defines(line, name) for line in self.lines_with(name))
        return self.surely[name]

    def lines_with(self, text):
        at = self.text.find(text)
        while at >= 0:
            end = self.text.find('\n', at)
            end = end if end >= 0 else len(self.text)
            yield self.text[self.text.rfind('\n', 0, at) + 1:end]
            at = self.text.find(text, end)

    def questions(self, count):
        """Up to `count` of (kind, question, answer)."""
        out = []
        for _ in range(count * 3):
            if len(out) >= count:
                break
            asked = self.question()
            if asked:
                out.append(asked)
        return out

    def header(self, w, first, last):
        return fence(w.path, signature(w.lines, first, last))

    def ask_where(self, name):
        hits, asked, word = self.table[name], name, None
        how, hit = (self.rng.random(), self.rng.choice(hits)) if self.other_words else (1.0, None)
        if how < 0.12:
            asked = self.qualified(name, hit) or name
            if asked != name:
                hits = [h for h in hits if self.qualified(name, h) == asked]
        elif how < (0.6 if name in self.mixed else 0.35):
            word = wordings.KIND_WORDS[hit[1]]
            hits = [h for h in hits if wordings.kin(h[1], word)]
        return self.ask('where', asked, word), self.places(name, 'defined', hits)

    def places(self, name, how, hits):
        parts = [f'`{w.path}`:\n\n{self.header(w, a, b)}' for w, _, a, b in hits]
        if len(parts) == 1:
            return f'`{name}` is {how} in {parts[0]}'
        return f'`{name}` is {how} in {len(parts)} places.\n\n' + '\n\n'.join(parts)

    def ask_show(self, name):
        w, _, a, b = self.table[name][0]
        name = next(s[0] for s in w.file.symbols if s[2] == a + 1 and s[3] == b)
        body = w.lines[a:b]
        if not 2 <= len(body) <= 45 or (self.hard and len(body) > 20 and self.rng.random() < 0.5):
            return None
        return self.ask_unique('show', name), f'`{name}` in `{w.path}`:\n\n' + fence(w.path, '\n'.join(body))

    def ask_doc(self, name):
        w, _, a, b = self.table[name][0]
        text = documentation(w.lines[:w.hi] if self.hard else w.lines, a, b, w.lo)
        if not 15 <= len(text) <= 300:
            return None
        return self.ask_unique('doc', name), f'{text}\n\nIt is defined in `{w.path}`:\n\n{self.header(w, a, b)}'

    def ask_params(self, name):
        w, kind, a, b = self.table[name][0]
        if kind not in ('function', 'method', 'func'):
            return None
        header = signature(w.lines, a, b, 6)
        if name + '(' not in header or ')' not in header:
            return None
        return self.ask_unique('params', name), self.signature_answer(name, w, header)

    @staticmethod
    def signature_answer(name, w, text):
        return f'The signature of `{name}` in `{w.path}` is:\n\n{fence(w.path, text)}'

    def find_declarations(self):
        if self.declared is None:
            found = declared(self.windows, self.bodies)
            self.declared = {n: hits for n, hits in found.items() if len(n) > 2 and len(hits) <= 2
                             and n not in self.table and n not in self.cut and n not in KEYWORDS}
            self.prototypes = [n for n, hits in self.declared.items() if hits[0][1]]
            self.twofold = [n for n in self.few if any(h[1] for h in found.get(n, ()))]

    def ask_declared(self, _):
        """About a name that is declared here and defined nowhere."""
        self.find_declarations()
        names = self.prototypes if self.prototypes and self.rng.random() < 0.75 else list(self.declared)
        if not names:
            return None
        name = self.rng.choice(names)
        hits = self.declared[name]
        lines = [w.lines[a].strip() for w, _, a, _ in hits]
        if ('declared', name) in self.asked or any(self.lines[line] != lines.count(line) for line in lines) \
                or any(line.strip() not in lines and defines(line, name) for line in self.lines_with(name)):
            return None
        self.asked.add(('declared', name))
        w, prototype, a, b = hits[0]
        kind = self.rng.choices(('where', 'params', 'show', 'doc'), (5, 2, 1.5, 1.5))[0]
        if len(hits) == 1 and prototype and kind != 'where':
            text = '\n'.join(w.lines[a:b])
            if kind == 'params' and name + '(' in text and ')' in text:
                return self.ask('params', name), self.signature_answer(name, w, text)
            if kind == 'show':
                return self.ask('show', name), f'`{name}` in `{w.path}`:\n\n{fence(w.path, text)}'
            about = comment_above(w.lines[:w.hi], a, w.lo)
            if kind == 'doc' and 15 <= len(about) <= 300:
                return self.ask('doc', name), f'{about}\n\nIt is declared in `{w.path}`:\n\n{self.header(w, a, b)}'
        return self.ask('where', name), self.places(name, 'declared', hits)

    def ask_words(self, _):
        """For what a name or its documentation says in words, where nothing else says it."""
        if not self.unique:
            return None
        name = self.rng.choice(self.unique)
        w, kind, a, b = self.table[name][0]
        word, question = wordings.KIND_WORDS[kind], None
        if ('words', name) in self.asked or not self.certain(name):
            return None
        if self.rng.random() < 0.4:
            asked = wordings.ask_by_documentation(documentation(w.lines[:w.hi], a, b, w.lo), word)
            if asked and self.text.count(asked[1]) == 1:
                question = asked[0]
        else:
            parts = wordings.words(name)
            if self.word_sets is None:
                self.word_sets = [set(wordings.words(n) or ()) for n in self.table]
            if parts and sum(s >= set(parts) for s in self.word_sets) == 1:
                question = wordings.ask_in_words(self.rng, parts, word)
        if not question:
            return None
        self.asked.add(('words', name))
        return question, self.places(name, 'defined', self.table[name])

    def ask_constructor(self, _):
        """For the constructors that a class of C++, Java, JavaScript or Python has here: one is shown in full."""
        if self.classes is None:
            self.classes = [n for n, hits in self.table.items() if any(h[1] in ('class', 'struct') for h in hits)]
        if not self.classes:
            return None
        name = self.rng.choice(self.classes)
        types = [h for h in self.table[name] if h[1] in ('class', 'struct')]
        if len(types) != 1 or ('constructor', name) in self.asked:
            return None
        w, _, first, last = types[0]
        found = [(v, a, b) for v, kind, a, b in self.table[name] if kind in ('function', 'method')]
        found += [(w, a - 1, b) for n, _, a, b in w.file.symbols if n in ('__init__', 'constructor')
                  and first < a - 1 and b <= last and self.innermost(w, a - 1, b) == name]
        if not 1 <= len(found) <= 4 or any(v is not w for v, _, _ in found) or found[0][2] - found[0][1] > 30:
            return None
        self.asked.add(('constructor', name))
        if len(found) > 1:
            headers = '\n\n'.join(self.header(*f) for f in found)
            return self.ask('constructor', name), f'`{name}` has {len(found)} constructors in `{w.path}`:\n\n{headers}'
        w, a, b = found[0]
        return self.ask('constructor', name), \
            f'The constructor of `{name}` in `{w.path}`:\n\n' + fence(w.path, '\n'.join(w.lines[a:b]))

    @staticmethod
    def innermost(w, first, last):
        """The class that lines belong to."""
        around = [(b - a, n) for n, kind, a, b in w.file.symbols if kind == 'class' and a - 1 < first and last <= b]
        return min(around)[1] if around else None

    def ask_lists(self, w):
        found = [(a, n, k) for n, k, a, b in w.file.symbols if w.lo <= a - 1 and b <= w.hi and k in DEFINITIONS
                 and k != 'method' and not n.startswith(('Anonymous', 'anon'))]
        found = sorted({(n, k): (a, n, k) for a, n, k in reversed(found)}.values(), key=lambda f: f[0])  # each once
        if not 1 <= len(found) <= 20:
            return None
        asked, last = w.path, w.path.rpartition('/')[2]
        if self.other_words and self.rng.random() < 0.25 and sum(last in v.path for v in self.windows) == 1:
            asked = last
        return self.ask('lists', asked), f'`{w.path}` defines:\n\n' + '\n'.join(f'- `{n}` ({k})' for _, n, k in found)

    def ask_line(self, w):
        for _ in range(8):
            i = self.rng.randrange(w.lo, w.hi)
            line = w.lines[i].strip()
            if 20 <= len(line) <= 100 and '`' not in line and self.text.count(line) == 1:
                if self.hard and self.rng.random() < 0.6:
                    line = self.piece(line) or line
                around = '\n'.join(w.lines[i:min(w.hi, i + 3)])
                question = self.rng.choice([f'Which file contains `{line}`?', f'Where is the line `{line}`?',
                                            f'Find `{line}`.'])
                return question, f'That line is in `{w.path}`:\n\n{fence(w.path, around)}'
        return None

    def piece(self, line):
        """Words from inside a line that stand nowhere else, so that the quote must begin before them; else None."""
        words = [m.start() for m in re.finditer(r'(?<=\W)\w', line[3:])]
        if not words:
            return None
        begin = 3 + self.rng.choice(words)
        part = line[begin:begin + self.rng.randint(10, 40)].strip()
        return part if len(part) >= 8 and self.text.count(part) == 1 else None

    def ask_uses(self, name):
        """Each file with its first line that holds the name as a word, definitions and comments apart."""
        pattern = re.compile(r'(?<![\w])' + re.escape(name) + r'(?![\w])')
        hits = []
        for w, body in zip(self.windows, self.bodies):
            if not pattern.search(body):
                continue
            defined = {a for n, _, a, _ in w.file.symbols if n == name}
            for i in range(w.lo, w.hi):
                line = w.lines[i]
                if name in line and (i + 1) not in defined and pattern.search(line) and not COMMENT.match(line):
                    hits.append((w.path, line.strip()))
                    break
        if not 1 <= len(hits) <= 6 or any(len(line) > 140 for _, line in hits):
            return None
        if self.hard and hits[0][1].find(name) < 4 and self.rng.random() < 0.4:
            return None  # such a quote's beginning is easy
        uses = '\n'.join(f'- `{p}`: `{line}`' for p, line in hits)
        return self.ask('uses', name), f'`{name}` is used here:\n\n{uses}'

    def absent_name(self):
        """A name that could be asked for: of another context, or made from the names of this one."""
        if self.every_way and len(self.few) > 4 and self.rng.random() < 0.5:
            one, two = (re.findall(r'[A-Z]?[a-z0-9]+|[A-Z]+|_+', n) for n in self.rng.sample(self.few, 2))
            how = self.rng.randrange(4)
            return ''.join(one[:max(1, len(one) - 1)] + two[-1:] if how < 2 else one + two[-1:] if how == 2
                           else two[:1] + one)
        if self.gone and self.rng.random() < 0.5:
            return self.rng.choice(self.gone)
        return self.rng.choice(self.foreign)

    def absent_path(self):
        """Nearly that of a file of this context."""
        path = self.rng.choice(self.windows).path
        folders, _, name = path.rpartition('/')
        other = self.rng.choice(self.windows).path.rpartition('/')
        new = folders + '/' + other[2] if self.rng.random() < 0.5 else other[0] + '/' + name
        if self.rng.random() < 0.4:
            stem, dot, ending = path.rpartition('.')
            new = stem + self.rng.choice(['_test', '2', '_utils', '_impl', 's']) + dot + ending
        return new.rpartition('/')[2] if self.other_words and self.rng.random() < 0.2 else new.lstrip('/')

    def ask_missing(self, _):
        if self.other_words and self.rng.random() < 0.12:
            parts, word = wordings.words(self.absent_name()), self.rng.choice(('function', 'class', 'struct'))
            if not parts or all(p in self.text.lower() for p in parts):
                return None
            question = wordings.ask_in_words(self.rng, parts, word)
            return (question, 'I could not find that in the loaded files.') if question else None
        for _ in range(8):
            kind = self.rng.choice(NAMED + ('lists', 'missing')) if self.every_way else 'missing'
            if self.other_words and self.rng.random() < 0.15:
                kind = 'constructor'
            word = self.rng.choice(('function', 'class', 'struct')) if self.other_words and kind in NAMED \
                and self.rng.random() < 0.2 else None
            name = self.absent_path() if kind == 'lists' else self.absent_name()
            if len(name) > 5 and name not in self.text and all(name not in w.path for w in self.windows):
                asked = name
                if self.other_words and self.few and kind in NAMED and not word and self.rng.random() < 0.1:
                    asked = self.rng.choice(self.few) + self.rng.choice(('::', '.')) + name
                return self.ask(kind, asked, word), f'I could not find `{name}` in the loaded files.'
        return None

    def ask_files(self, _):
        if len(self.windows) > 24:
            return None
        question = self.rng.choice(['Which files are loaded?', 'What files can you see?',
                                    'List the files in the context.', 'What is in this repository?'])
        names = '\n'.join(f'- `{w.path}`' for w in self.windows)
        return question, f'These files of `{self.repo}` are loaded:\n\n{names}'

    def ask_chat(self, _):
        hello = 'Hello! Ask me about the loaded repository: where something is defined, what it does, or to show its ' \
            'code.'
        return self.rng.choice([
            ('hi', hello), ('Hello', hello), ('Thanks!', 'You are welcome.'), ('thank you', 'You are welcome.'),
            ('What can you do?', 'I answer questions about the loaded files: where a symbol is defined or used, what '
             'it does, its signature, its source, and what a file contains. I quote the source, so you can check '
             'every answer.'),
            ('Who are you?', 'I am Octavo, a small code assistant that answers from the files loaded in this pane.')])


class Builder:
    """Draws contexts and samples. `repos` is {name: [File]}; `renaming` is the share of contexts with other paths,
    `exchanging` that with other names, for which `all_names` are needed."""

    def __init__(self, repos, coder, rng, renaming=0.0, exchanging=0.0, all_names=None):
        self.repos, self.coder, self.rng, self.renaming = repos, coder, rng, renaming
        self.exchanging, self.all_names = exchanging, all_names
        self.names = sorted(repos)
        self.shares = [max(1.0, sum(len(f.text) for f in repos[n])) ** 0.6 for n in self.names]
        self.foreign = [s[0] for n in self.names for f in repos[n][:60] for s in f.symbols[:10] if len(s[0]) > 5]
        self.words = sorted({w for n in self.names for f in repos[n] for w in f.path.rsplit('.', 1)[0].split('/')
                             if 2 <= len(w) <= 24}) if renaming else []

    def window(self, file, path, left, budget):
        """All of a file, or a run of its lines, in at most `left` tokens; None where neither fits."""
        head = np.array(self.coder.encode(path), dtype=np.uint16)
        left -= len(head)
        lines = file.text.split('\n')
        if len(file.ids) <= left and (len(file.ids) < budget * 0.6 or self.rng.random() < 0.3):
            return Window(file, path, lines, 0, len(lines), np.concatenate((head, file.ids)))
        take = min(left, int(budget * self.rng.uniform(0.15, 0.6)))
        line, at = self.coder.line_starts(file.ids)
        line, at = line[:-1], at[:-1]  # the last one is the end of the text
        if len(line) < 8:
            return None
        first = self.rng.randrange(max(1, len(line) - 8)) if self.rng.random() < 0.7 else 0
        last = int(np.searchsorted(at, at[first] + take - 1, 'right')) - 1
        if last <= first or line[last] - line[first] < 5:
            return None
        ids = np.concatenate((head, self.coder.new_line, file.ids[at[first]:at[last]]))
        return Window(file, path, lines, int(line[first]), int(line[last]), ids)

    def windows(self, budget):
        rng = self.rng
        repo = rng.choices(self.names, self.shares)[0]
        files = self.repos[repo]
        anchor = rng.randrange(len(files))
        near = files[max(0, anchor - 40):anchor + 40]
        renamer = Renamer(self.words, rng) if rng.random() < self.renaming else lambda path: path
        out, used, seen = [], 0, set()
        for f in rng.sample(near, len(near)) + rng.sample(files, min(len(files), 60 + budget // 400)):
            if f.path in seen:
                continue
            if budget - used < 120:
                break
            w = self.window(f, renamer(f.path), budget - used - 1, budget)
            if w:
                seen.add(f.path)
                out.append(w)
                used += len(w.ids) + 1
        if rng.random() < 0.5:
            out.sort(key=lambda w: w.path)
        return repo, out

    def context(self, budget, kinds=None, hard=False):
        if not self.exchanging or self.rng.random() >= self.exchanging:
            return Context(*self.windows(budget), self.rng, self.foreign, hard, kinds)
        repo, windows = self.windows(int(budget * 0.94))  # other names can be longer
        exchange = Exchange(self.all_names, repo, windows, self.rng)
        windows = [exchange.window(w, self.coder) for w in windows]
        context = Context(repo, windows, self.rng, self.foreign, hard, kinds)
        context.gone = list(exchange.new)
        return context

    def render(self, context):
        """Ids of the system turn: what every conversation about this context begins with."""
        encode, special = self.coder.encode, self.coder.special
        ids = [special['<|im_start|>']] + encode('system\n' + SYSTEM + '\n')
        ids += [special['<|repo_name|>']] + encode(context.repo + '\n')
        for w in context.windows:
            ids.append(special['<|file_sep|>'])
            ids.extend(w.ids.tolist())
        return ids + [special['<|im_end|>']] + encode('\n')

    def question_ids(self, question):
        encode, special = self.coder.encode, self.coder.special
        return [special['<|im_start|>']] + encode('user\n' + question) + [special['<|im_end|>']] + encode('\n') \
            + [special['<|im_start|>']] + encode('assistant\n')

    def turn(self, question, answer, paths=(), gathered=False, parting=None):
        """(head, answer ids, their loss weights). `parting`: the forks of the context."""
        ids, starts = self.coder.encode_with_starts(answer)
        weights = np.full(len(ids) + 1, CAREFUL if gathered else 1, dtype=np.float16)
        starts = np.array(starts)

        def weigh(begin, end, weight):
            weights[:-1][(starts >= begin) & (starts < end)] = weight

        asked = re.search('`(.+)`', question) if answer.startswith('That line') else None
        subject = asked or re.match(r'(?:The (?:signature|constructor) of )?`([^`]+)` '
                                     r'(?:is defined in|is declared in|is used|has|in) ', answer)
        if gathered:  # which item comes next, and whether one comes at all
            for item in re.finditer('\n- `', answer):
                weigh(item.start(), item.end() + 4, FORKED)
            weigh(len(answer) - 1, len(answer), FORKED)
            weights[-1] = FORKED
        for quote in OPENING.finditer(answer):
            weigh(quote.end(), quote.end() + 24, CAREFUL)
            line_end = answer.find('\n', quote.end())
            named = answer.find(subject.group(1), quote.end(), line_end) if subject else -1
            if named >= 0:  # until the name comes, nothing but the line's place tells how it goes on
                weigh(quote.end(), max(named, quote.end() + 1), CHOOSING)
        for blank in BLANK.finditer(answer):
            weigh(blank.end() - 1, blank.end() + 1, CAREFUL)
        if answer.endswith('\n```'):
            weigh(len(answer) - 4, len(answer), FORKED)
        if subject and subject.group(0).endswith(('defined in ', 'declared in ')):  # which of them
            weigh(subject.end() - 13, subject.end() - 4, CHOOSING)
        if subject and subject.group(0).endswith(('defined in ', 'declared in ', ' has ')):  # a path or a number
            weigh(subject.end() - 1, subject.end() + 1, CHOOSING)
        for path in paths:
            at = answer.find('`' + path + '`')
            while at >= 0:
                weigh(at, at + len(path) + 2, POINTING)
                at = answer.find('`' + path + '`', at + 1)
        if parting is not None and len(ids) > 3:
            at = 3 + np.flatnonzero(np.isin(runs_of_three(np.array(ids))[:-1], parting))
            weights[at] = np.maximum(weights[at], FORKED)
        weights[0] = POINTING
        return self.question_ids(question), ids + [self.coder.special['<|im_end|>']], weights

    def sample(self, length):
        """Token ids and loss weights, exactly `length` of each; text outside answers weighs next to nothing."""
        rng = self.rng
        ids, weights = [], []
        closing = self.coder.encode('\n')
        while len(ids) < length:
            left = length - len(ids)
            share = rng.uniform(0.3, 0.7) if left <= 8192 else rng.uniform(0.4, 0.82) if left <= 20000 \
                else rng.uniform(0.55, 0.9)
            context = self.context(max(300, int(left * share)), TRAINED_KINDS, hard=True)
            base = self.render(context)
            ids += base
            weights.append(np.where(np.random.default_rng(rng.getrandbits(32)).random(len(base)) < 0.08, 0.2, 0.0))
            paths, misses, parting = [w.path for w in context.windows], 0, forks(np.array(base))
            while len(ids) < length and misses < 40:
                asked = context.question()
                if not asked:
                    misses += 1
                    continue
                misses = 0
                kind, question, answer = asked
                head, tail, w = self.turn(question, answer, [p for p in paths if p in answer],
                                          kind in ('lists', 'uses'), parting)
                ids += head + tail + closing
                weights += [np.zeros(len(head)), w if kind != 'chat' else w * 0.3, np.zeros(len(closing))]
        return np.array(ids[:length], dtype=np.uint16), np.concatenate(weights)[:length].astype(np.float16)
