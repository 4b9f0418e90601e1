"""Other ways in which people ask what `samples.QUESTIONS` asks: articles, what kind of thing a name is before or after
it, with and without backquotes, in the words of a name or of its documentation instead of the name."""
import re

from renaming import PIECE

# {name} comes with or without backquotes.
FORMS = {
    'where': ['Where is {name}?', 'Where is {name} declared?', 'Where does {name} live?', 'Which file has {name}?',
              'Where do I find {name}?', 'I am looking for {name}.', 'Point me to {name}.', 'Go to {name}.',
              'In what file is {name} defined?', 'Where can I find the definition of {name}?', 'Where is {name} from?',
              'Can you find {name}?', 'Where in the code is {name}?', 'Where is the declaration of {name}?'],
    'show': ['Show {name}.', 'Show me the source of {name}.', 'Print {name}.', 'Can you show me {name}?',
             'I want to see {name}.', 'What does {name} look like?', 'Show the definition of {name}.',
             'Quote {name}.', 'Give me the code of {name}.', 'How does {name} look?', 'Display the code for {name}.'],
    'doc': ['What is {name}?', 'What is {name} for?', 'Describe {name}.', 'What is {name} good for?',
            'Tell me about {name}.', 'How does {name} work?', 'What does {name} do?'],
    'params': ['What does {name} take?', 'Which parameters does {name} have?', 'Which arguments does {name} take?',
               'What do I pass to {name}?', 'How is {name} called?', 'Show me the signature of {name}.',
               'What are the parameters of {name}?', 'How do I use {name}?', 'What does {name} accept?'],
    'uses': ['Where is {name} called?', 'What uses {name}?', 'Show me where {name} is used.', 'Who calls {name}?',
             'Which files use {name}?', 'Where do we use {name}?', 'Find all uses of {name}.'],
    'lists': ['What is in {name}?', 'What does {name} define?', 'Which definitions are in {name}?',
              'What can I find in {name}?', 'Give me an overview of {name}.', 'List what {name} defines.',
              'Which functions and classes does {name} have?'],
    'constructor': ['Show me the constructor of {name}.', 'What does the constructor of {name} look like?',
                    'Show the {name} constructor.', 'Where is the constructor of {name}?', 'How is {name} constructed?',
                    'How is a {name} made?', 'How do I create a {name}?', 'Which constructor does {name} have?']}
# Where a form may say what kind of thing the name is, this stands for it.
SUBJECTS = ('the {name} {word}', 'the {word} {name}', '{word} {name}', 'the {word} called {name}')
KIND_WORDS = {'function': 'function', 'func': 'function', 'method': 'method', 'generator': 'function',
              'class': 'class', 'struct': 'struct', 'interface': 'interface', 'trait': 'trait', 'union': 'union',
              'enum': 'enum', 'type': 'type', 'typedef': 'type', 'alias': 'type', 'macro': 'macro',
              'const': 'constant'}
CALLED = ('function', 'method')
VALUES = ('macro', 'constant')
TALKS_OF = {True: ('How do I {}?', 'How can I {}?', 'Which function lets me {}?', 'What do I call to {}?',
                   'I want to {}.', 'Where do we {}?', 'Is there a function to {}?'),
            False: ('Which {word} handles {}?', 'Which {word} is about {}?', 'Where is the {} {word}?',
                    'What is the {word} for {} called?', 'Where are {} things handled?', 'What represents {}?')}
NO_VERBS = frozenset('is has on test tests to from with of in for and not new'.split())


def family(word):
    """What a question that says a kind of thing may mean by it: a method is called a function too."""
    return CALLED if word in CALLED else VALUES if word in VALUES else ('type',)


def kin(kind, word):
    return family(KIND_WORDS.get(kind, 'type')) == family(word)


def ask(rng, kind, name, word=None):
    """A question of a kind about a name; `word` says what kind of thing it is."""
    name = f'`{name}`' if rng.random() < 0.4 else name
    if word in CALLED and rng.random() < 0.3:
        word = rng.choice(CALLED)
    subject = rng.choice(SUBJECTS).format(name=name, word=word) if word else name
    text = rng.choice(FORMS[kind]).format(name=subject)
    if rng.random() < 0.2:
        text = text[0].lower() + text[1:]
    return text[:-1] if rng.random() < 0.2 else text


def words(name):
    """The words of a name, None where they are no words or just one."""
    found = PIECE.findall(name)
    good = 2 <= len(found) <= 5 and all(p.isalpha() and len(p) > 1 for p in found)
    return [p.lower() for p in found] if good else None


def ask_in_words(rng, parts, word):
    """A question for what is called by these words; None where they make no sentence."""
    called = word in CALLED
    if called and parts[0] in NO_VERBS:
        return None
    article = rng.choice(('', 'a ', 'the ', 'the ')) if called else ''
    if article == 'a ' and parts[1][0] in 'aeiou':
        article = 'an '
    phrase = f'{parts[0]} {article}{" ".join(parts[1:])}' if called else ' '.join(parts)
    return rng.choice(TALKS_OF[called]).format(phrase, word=word)


def ask_by_documentation(text, word):
    """(question, the words it quotes) from a first sentence such as `Returns ...`; None for others."""
    sentence = re.match(r'([A-Z][a-z]+s) ((?:[\w\'-]+,? ){2,9}[\w\'-]+)', text)
    if not sentence or sentence.group(1) in ('This', 'Is', 'Has', 'As', 'Its', 'Does', 'Was'):
        return None
    return f'Which {word} {sentence.group(1).lower()} {sentence.group(2)}?', sentence.group(2)
