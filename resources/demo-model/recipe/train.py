#!/usr/bin/env python3
"""Trains the demo model on the GPUs of one machine, from another version's weights, for a given time.

usage: train.py --corpus A.jsonl.xz [B.jsonl.xz ...] --tokenizer tokenizer.json --init MODEL_DIR --out DIR --seconds N
Starts one process a GPU and worker processes that draw samples, brings dead workers back, and goes on from the last
checkpoint on one GPU where training on several died. DIR/last.pt holds the float32 weights every two minutes and at
the end; DIR/until, where it exists, holds another end as seconds since 1970.
Needs torch (CUDA), tokenizers, safetensors, numpy; flash-linear-attention (`fla`) on PYTHONPATH for speed.
"""
import argparse
import multiprocessing as mp
import os
import time

import feed
import renaming


def train_on(*arguments):
    """Body of a GPU's process, which alone loads torch."""
    import trainer
    trainer.guarded_train(*arguments)


class Processes:
    """What runs: one trainer a GPU, and the workers that feed them."""

    def __init__(self, args):
        self.args, self.seeds = args, iter(range(1000 * args.seed, 10 ** 9))
        self.fresh, self.forked = mp.get_context('spawn'), mp.get_context('fork')
        self.workers = []
        self.start_trainers(args.gpus)

    def start_trainers(self, count):
        self.fraction = self.fresh.Value('d', 0.0)
        self.sources = [self.fresh.Queue(12) for _ in range(count)]
        self.counters = [self.fresh.Value('q', 0) for _ in range(count)]
        self.trainers = [self.fresh.Process(target=train_on, args=(r, count, self.args, self.sources[r], self.fraction))
                         for r in range(count)]
        for p in self.trainers:
            p.start()

    def start_worker(self, n):
        n %= len(self.sources)
        arguments = (self.repos, self.all_names, self.args.tokenizer, next(self.seeds), self.counters[n], self.fraction,
                     self.sources[n])
        p = self.forked.Process(target=feed.work, args=arguments, daemon=True)
        p.start()
        return p

    def start_workers(self, repos):
        self.repos, self.all_names = repos, renaming.Names(repos)
        self.workers = [self.start_worker(n) for n in range(self.args.workers)]

    def watch(self):
        """Until training is done; False where it could not be brought to an end."""
        while any(p.is_alive() for p in self.trainers):
            time.sleep(1)
            for n, p in enumerate(self.workers):
                if not p.is_alive():
                    print('a worker died and is replaced', flush=True)
                    self.workers[n] = self.start_worker(n)
            if any(p.exitcode not in (None, 0) for p in self.trainers):
                self.stop()
                if len(self.trainers) == 1 and self.args.resume:
                    return False
                print('training died: it goes on with one GPU', flush=True)
                self.args.resume, self.args.port = True, self.args.port + 1
                self.start_trainers(1)
                self.start_workers(self.repos)
        return all(p.exitcode == 0 for p in self.trainers)

    def stop(self):
        for p in self.trainers + self.workers:
            p.kill()


def main(args):
    from tokenizers import Tokenizer
    processes = Processes(args)  # trainers get ready while the corpus is read
    repos = feed.load_corpus(args.corpus, Tokenizer.from_file(args.tokenizer), args.patience)
    print(f'{len(repos)} repositories read after {time.time() - args.started:.0f} s', flush=True)
    processes.start_workers(repos)
    good = processes.watch()
    processes.stop()
    os._exit(0 if good else 1)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--corpus', nargs='+', required=True)
    parser.add_argument('--tokenizer', required=True)
    parser.add_argument('--init', required=True)
    parser.add_argument('--out', required=True)
    parser.add_argument('--seconds', type=float, default=900, help='from now, with what getting ready takes')
    parser.add_argument('--gpus', type=int, default=2)
    parser.add_argument('--workers', type=int, default=28)
    parser.add_argument('--rate', type=float, default=1e-3)
    parser.add_argument('--hold', type=float, default=0.2, help='share of the time before the rate begins to fall')
    parser.add_argument('--settle', type=float, default=0.88,
                        help='share of the time after which weights are drawn towards their int4 values')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--patience', type=float, default=0, help='seconds to wait for corpus files to appear')
    parser.add_argument('--port', type=int, default=29511)
    parser.add_argument('--compile', type=int, default=1)
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--resume', action='store_true', help='go on from OUT/last.pt')
    options = parser.parse_args()
    options.started = time.time()
    options.until = options.started + options.seconds
    os.makedirs(options.out, exist_ok=True)
    main(options)
