"""Names that a text declares without defining them: prototypes and classes named ahead in C and C++, methods of Go's
interfaces, fields and variables."""
import re

C_ENDINGS = ('h', 'hpp', 'c', 'cc', 'cpp')
# Declared in one statement: what comes before a name must be a type, what follows in parentheses no values.
PROTOTYPE = re.compile(r'^[ \t]*(?!(?:return|else|throw|delete|new|case|goto|using|typedef|co_return|co_await)\b)'
                       r'(?:[A-Za-z_][\w:]*(?:<[^;(){}=]*>)?[ \t*&]+)+([A-Za-z_]\w*)[ \t]*'
                       r'(\([^;{}"\'=]*(?:=[^;{}()]*)?\)[ \t\w()\n]*(?:= ?(?:0|default|delete))?;)', re.M)
AHEAD = re.compile(r'^[ \t]*(?:class|struct|union|enum(?: class)?)[ \t]+([A-Za-z_]\w*);', re.M)
GO_METHOD = re.compile(r'^\t([A-Z]\w*)\([^{}\n]*$', re.M)
FIELDS = ('member', 'variable', 'var', 'constant')
LONGEST = 5  # lines


def spans(symbols, kinds):
    return [(a, b) for _, kind, a, b in symbols if kind in kinds and b > a]


def inside(line, ranges):
    return any(a < line <= b for a, b in ranges)


def prototypes(w, text):
    """(name, first line, line after the last) of the declarations in a window of C, C++ or Go, lines counted from 0."""
    ending = w.path.rsplit('.', 1)[-1]
    if ending in C_ENDINGS:
        bodies = spans(w.file.symbols, ('function', 'macro'))
        found = [m for pattern in (PROTOTYPE, AHEAD) for m in pattern.finditer(text)]
    elif ending == 'go':
        bodies, found = [], list(GO_METHOD.finditer(text))
        interfaces = spans(w.file.symbols, ('interface',))
        found = [m for m in found if inside(w.lo + text.count('\n', 0, m.start()) + 1, interfaces)]
    else:
        return
    for m in found:
        first = w.lo + text.count('\n', 0, m.start())
        last = w.lo + text.count('\n', 0, m.end()) + 1
        if last - first <= LONGEST and not inside(first + 1, bodies):
            yield m.group(1), first, last


def fields(w):
    """The same of fields and variables that the symbol table lists: those of C, C++, Go and Rust, and in other
    languages what stands at the begin of its line."""
    fielded = w.path.rsplit('.', 1)[-1] in C_ENDINGS + ('go', 'rs')
    for name, kind, first, last in w.file.symbols:
        if kind in FIELDS and w.lo < first <= w.hi and last <= first + 1 \
                and (fielded or re.match(r'(?:(?:export|const|let|var|val|public|private) )*' + re.escape(name) + r'\b',
                                         w.lines[first - 1])):
            yield name, first - 1, first


def declared(windows, bodies):
    """{name: [(window, is it a prototype, first line, line after the last)]}."""
    table = {}
    for w, text in zip(windows, bodies):
        for name, first, last in prototypes(w, text):
            table.setdefault(name, []).append((w, True, first, last))
        for name, first, last in fields(w):
            table.setdefault(name, []).append((w, False, first, last))
    return table
