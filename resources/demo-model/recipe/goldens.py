#!/usr/bin/env python3
"""Reference values for the engine's tests, in float32.

usage: goldens.py MODEL_DIR HELD.jsonl[.xz] OUT_DIR
Writes prompts.json (prompt ids, greedy continuation, top logits), logprobs.safetensors with logprobs_ids*.json, and
mtp.json, of questions that the model answers right, so that one pass checks an answer. Hugging Face transformers
computes them where it is installed, model.py where it is not; drafts always come from model.py, as transformers does
not run the MTP layer. With both, their hidden states are compared.
"""
import json
import os
import random
import sys

import numpy as np
import torch
from safetensors.torch import save_file

import model as M
import samples as S
from evaluate import read
from sources import Coder

PROMPTS = ((600, 3, 3), (1500, 4, 3), (4000, 5, 3), (4000, 6, 3), (8000, 7, 1))  # tokens of context, seed, questions
DRAFTED = 1  # the context whose last prompt mtp.json is about
TOP, LONGEST = 8, 64


def transformers_model(folder, tensors, device):
    """None where transformers is not installed."""
    try:
        from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
    except ImportError:
        return None
    with open(os.path.join(folder, 'config.json')) as f:
        stored = json.load(f)
    config = Qwen3_5TextConfig(**{k: v for k, v in stored.items()
                                  if k not in ('quantization_config', 'architectures', 'dtype')})
    config._attn_implementation = 'sdpa'
    assert list(config.layer_types) == stored['layer_types'], config.layer_types
    hf = Qwen3_5ForCausalLM(config).float().to(device).eval()
    found = hf.load_state_dict({k: v for k, v in tensors.items() if not k.startswith('mtp.')}, strict=False)
    assert not found.unexpected_keys and set(found.missing_keys) <= {'lm_head.weight'}, found
    hf.tie_weights()
    return hf


class Reference:
    """Hidden states of token ids in float32."""

    def __init__(self, folder, device):
        self.device = device
        self.mine = M.load(folder, device)
        self.theirs = transformers_model(folder, self.mine.state_dict(), device)

    def batch(self, ids):
        return torch.tensor([ids], device=self.device)

    @torch.no_grad()
    def hidden(self, ids):
        if self.theirs is not None:
            return self.theirs.model(self.batch(ids)).last_hidden_state[0]
        return self.mine.hidden(self.batch(ids))

    @torch.no_grad()
    def compare(self, ids):
        """Relative difference of both programs' hidden states; 0 with one alone."""
        a, b = self.hidden(ids), self.mine.hidden(self.batch(ids))
        return ((a - b).norm() / a.norm()).item()

    @torch.no_grad()
    def greedy(self, ids, likely):
        """(hidden states of `ids`, the first tokens of `likely`) where greedy decoding gives these, else None."""
        likely = likely[:LONGEST]
        hidden = self.hidden(ids + likely)
        found = self.mine.head(hidden[len(ids) - 1:-1]).argmax(-1).tolist()
        return (hidden[:len(ids)], likely) if found == likely else None

    @torch.no_grad()
    def drafts(self, ids):
        """What the MTP layer drafts in three steps, at every position."""
        x, out = self.batch(ids), []
        hidden = self.mine.hidden(x)
        for d in range(3):
            hidden = self.mine.draft(torch.roll(x, -(d + 1), 1), hidden)
            likeliest = self.mine.head(hidden)[:len(ids) - d - 2].argmax(-1).tolist()
            out.append({'step': d + 1, 'note': f'row t predicts token t+{d + 2}, given tokens up to t+{d + 1}',
                        'argmax': likeliest})
        return {'ids': ids, 'drafts': out}


def write(out, name, value):
    with open(os.path.join(out, name), 'w') as f:
        json.dump(value, f, ensure_ascii=False)


def main(folder, held, out):
    from tokenizers import Tokenizer
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    M.Linear.int4 = False
    os.makedirs(out, exist_ok=True)
    tokenizer = Tokenizer.from_file(os.path.join(folder, 'tokenizer.json'))
    reference = Reference(folder, 'cuda' if torch.cuda.is_available() else 'cpu')
    repos, coder = read(held), Coder(tokenizer)
    for files in repos.values():
        for f in files:
            f.ids = np.array(coder.encode('\n' + f.text + '\n'), dtype=np.uint16)
    end = coder.special['<|im_end|>']
    prompts, logprobs = [], {}
    for i, (tokens, seed, wanted) in enumerate(PROMPTS):
        builder = S.Builder(repos, coder, random.Random(seed))
        context = builder.context(tokens)
        base = builder.render(context)
        for kind, question, answer in context.questions(40):
            if kind not in ('where', 'show', 'params', 'missing') or wanted == 0:
                continue
            ids = base + builder.question_ids(question)
            right = reference.greedy(ids, coder.encode(answer) + [end])
            if not right:
                continue
            wanted -= 1
            hidden, greedy = right
            last = ids
            logits = reference.mine.head(hidden[-1:])[0]
            top = logits.topk(TOP)
            text = tokenizer.decode(greedy, skip_special_tokens=False)
            prompts.append({'kind': kind, 'question': question, 'expected': answer, 'prompt_ids': ids,
                            'top_ids': top.indices.tolist(), 'top_logits': top.values.tolist(),
                            'logsumexp': logits.logsumexp(-1).item(), 'greedy_ids': greedy, 'greedy_text': text})
            print(len(ids), kind, repr(question), '->', repr(text[:120]), flush=True)
        if tokens <= 4000:
            logits = reference.mine.head(hidden[:len(base) - 1])
            target = torch.tensor(base[1:], device=reference.device)[:, None]
            logprobs[f'prompt{i}'] = logits.log_softmax(-1).gather(-1, target)[:, 0].detach().cpu().contiguous()
            write(out, f'logprobs_ids{i}.json', base)
        if i == DRAFTED:
            print('hidden states of both programs differ by', reference.compare(last), flush=True)
            write(out, 'mtp.json', reference.drafts(last + greedy))
    write(out, 'prompts.json', prompts)
    save_file(logprobs, os.path.join(out, 'logprobs.safetensors'))


if __name__ == '__main__':
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
