"""The orders of docs/sampling.md in plain Python, written from that page alone.

Slow and simple: it exists to be compared with the engine, and to be read. Run it to print the test
vectors of the page and of src/cellfeed/sampling/golden_test.cc.
"""

from __future__ import annotations

import bisect
import math

M32 = (1 << 32) - 1
M64 = (1 << 64) - 1

BLOCK_ORDER, SHORT_BLOCK, GROUP_ORDER, BLOCK_DRAW = 1, 2, 3, 4
MEMBER_DRAW, ROUND_KEYS, GROUP_BATCH, GROUP_MEMBER = 5, 6, 7, 8


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox 4x32-10 (Salmon et al., 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def halves(x: int) -> list[int]:
    return [x & M32, x >> 32 & M32]


class Stream:
    """Random bits for (seed, epoch, purpose)."""

    def __init__(self, seed: int, epoch: int, purpose: int):
        self.key = philox([*halves(epoch), purpose, 0], halves(seed))[:2]

    def words(self, index: int, substream: int = 0) -> list[int]:
        return philox(halves(index) + halves(substream), self.key)

    def two(self, index: int, substream: int = 0) -> tuple[int, int]:
        w = self.words(index, substream)
        return w[0] | w[1] << 32, w[2] | w[3] << 32

    def bits(self, index: int, substream: int = 0) -> int:
        return self.two(index, substream)[0]

    def bounded(self, index: int, n: int) -> int:
        attempt = 0
        while True:
            product = self.bits(index, attempt) * n
            if product & M64 >= (1 << 64) % n:
                return product >> 64
            attempt += 1


class Permutation:
    """A permutation of range(n): Fisher-Yates up to explicit_size, else a Feistel network."""

    def __init__(self, stream: Stream, substream: int, n: int, explicit_size: int = 65536):
        self.n, self.table = n, None
        if n <= explicit_size:
            self.table = self._shuffle(stream, substream)
            return
        self.left_bits = (n.bit_length() - 1) // 2
        self.right_size = -(-n >> self.left_bits)
        self.keys = [stream.bits(r, substream) for r in range(8)]

    def _shuffle(self, stream: Stream, substream: int) -> list[int]:
        def words():
            index = 0
            while True:
                yield from stream.words(index, substream)
                index += 1

        source = words()
        table = list(range(self.n))
        for i in range(self.n - 1, 0, -1):
            product = next(source) * (i + 1)
            while product & M32 < (1 << 32) % (i + 1):
                product = next(source) * (i + 1)
            j = product >> 32
            table[i], table[j] = table[j], table[i]
        return table

    def _hash(self, r: int, half: int) -> int:
        z = (self.keys[r] + half * 0x9E3779B97F4A7C15) & M64
        return (z ^ z >> 32) * 0xBF58476D1CE4E5B9 & M64

    def _encrypt(self, x: int) -> int:
        mask = (1 << self.left_bits) - 1
        left, right = x & mask, x >> self.left_bits
        for r in range(0, 8, 2):
            left = (left + (self._hash(r, right) >> (64 - self.left_bits))) & mask
            right = (right + (self._hash(r + 1, left) * self.right_size >> 64)) % self.right_size
        return right << self.left_bits | left

    def __getitem__(self, i: int) -> int:
        if self.table is not None:
            return self.table[i]
        i = self._encrypt(i)
        while i >= self.n:
            i = self._encrypt(i)
        return i


class Order:
    """Base of the strategies: key = (seed, epoch, step_samples, fetch_samples)."""

    def __init__(self, seed: int, epoch: int = 0, step_samples: int = 1, fetch_samples: int = 1):
        self.seed, self.epoch, self.step, self.fetch = seed, epoch, step_samples, fetch_samples
        self._permutations = {}

    def stream(self, purpose: int) -> Stream:
        return Stream(self.seed, self.epoch, purpose)

    def permutation(
        self, purpose: int, substream: int, n: int, explicit_size: int = 65536
    ) -> Permutation:
        key = purpose, substream, n
        if key not in self._permutations:
            self._permutations[key] = Permutation(self.stream(purpose), substream, n, explicit_size)
        return self._permutations[key]

    def in_group(self, position: int, group: int, length: int) -> int:
        g = position // group
        base = g * group
        size = min(group, length - base)
        if size == 1:
            return position
        return base + self.permutation(GROUP_ORDER, g, size)[position - base]

    def in_blocks(self, position: int, n: int, block: int, substream: int = 0) -> int:
        full, short = divmod(n, block)
        short_begin = n
        if short:
            short_begin = block * self.stream(SHORT_BLOCK).bounded(substream, full + 1)
        if position >= short_begin:
            if position < short_begin + short:
                return full * block + position - short_begin
            position -= short
        slot, offset = divmod(position, block)
        return self.permutation(BLOCK_ORDER, substream, full)[slot] * block + offset

    def first(self, count: int) -> list[int]:
        return [self[i] for i in range(count)]


class Streaming(Order):
    def __init__(self, rows, shuffle=False, shuffle_buffer=0, **key):
        super().__init__(**key)
        self.rows, self.buffer = sorted(rows), shuffle_buffer
        self.shuffle = shuffle or shuffle_buffer > 0

    def __getitem__(self, position: int) -> int:
        if self.shuffle:
            position = self.in_group(position, self.buffer or self.fetch, len(self.rows))
        return self.rows[position]


class BlockShuffling(Order):
    def __init__(self, rows, block_size=8, drop_last=False, **key):
        super().__init__(**key)
        self.rows = rows if isinstance(rows, range) else sorted(rows)
        self.block = block_size
        self.n = len(rows) - (len(rows) % block_size if drop_last else 0)

    def __getitem__(self, position: int) -> int:
        if self.block == 1:
            return self.rows[self.permutation(BLOCK_ORDER, 0, self.n)[position]]
        sample = self.in_blocks(self.in_group(position, self.fetch, self.n), self.n, self.block)
        dropped = len(self.rows) - self.n
        if dropped and sample >= self.stream(SHORT_BLOCK).bounded(0, self.n + 1):
            sample += dropped
        return self.rows[sample]


class WholeShards(Order):
    def __init__(self, sizes, n_ranks, **key):
        super().__init__(**key)
        begins = [sum(sizes[:k]) for k in range(len(sizes))]
        rows = [range(b, b + n) for b, n in zip(begins, sizes, strict=True)]
        self.shares = [[row for shard in rows[r::n_ranks] for row in shard] for r in range(n_ranks)]
        due = [len(range(r, sum(sizes), n_ranks)) for r in range(n_ranks)]
        pieces = []  # of one shard each
        for share, n in zip(self.shares, due, strict=True):
            while len(share) > n:
                shard = next(shard for shard in rows if share[-1] in shard)
                piece = [row for row in share[n:] if row in shard]
                del share[-len(piece) :]
                pieces.append(piece)
        for share, n in zip(self.shares, due, strict=True):
            while len(share) < n:
                given = pieces[-1][: n - len(share)]
                share += given
                del pieces[-1][: len(given)]
                if not pieces[-1]:
                    pieces.pop()

    def __getitem__(self, position: int) -> int:
        place, rank = divmod(position, len(self.shares))
        share = self.shares[rank]
        return share[self.permutation(BLOCK_ORDER, rank, len(share))[place]]


class Alias:
    def __init__(self, weights: list[float]):
        n = len(weights)
        mean = math.fsum(weights) / n
        share = [w / mean for w in weights]
        lights = [i for i in range(n) if weights[i] <= mean]
        heavies = [i for i in range(n) if weights[i] > mean]
        heaviest = max(range(n), key=lambda i: weights[i])
        self.cells = [None] * n
        left = share[heavies[0]] if heavies else 0.0
        while heavies:
            if left > 1 and lights:
                light = lights.pop(0)
                self.cells[light] = threshold(share[light]), heavies[0]
                left = (left - 1) + share[light]
                continue
            heavy = heavies.pop(0)
            self.cells[heavy] = threshold(left), heavies[0] if heavies else heavy
            left = (left - 1) + share[heavies[0]] if heavies else 0.0
        for light in lights:
            self.cells[light] = threshold(share[light]), heaviest

    def draw(self, cell_bits: int, item_bits: int) -> int:
        cell = cell_bits * len(self.cells) >> 64
        limit, alias = self.cells[cell]
        return cell if item_bits >> 1 < limit else alias


def threshold(share: float) -> int:
    return int(math.ldexp(min(max(share, 0.0), 1.0), 63))


class BlockWeightedSampling(Order):
    def __init__(
        self, weights, block_size=8, total_size=None, replace=True, sampling_size=None, **key
    ):
        super().__init__(**key)
        self.weights, self.block, self.replace = weights, block_size, replace
        drawable = sum(w > 0 for w in weights)
        self.n = total_size or (len(weights) if replace else drawable)
        self.round_size = sampling_size or min(self.n, drawable)
        self._rounds = {}
        if replace:
            self.blocks = [weights[i : i + block_size] for i in range(0, len(weights), block_size)]
            self.alias = Alias([sum(b) for b in self.blocks])

    def __getitem__(self, position: int) -> int:
        if not self.replace:
            position = self.in_group(position, self.fetch, self.n)
            return self.round(position // self.round_size)[position % self.round_size]
        if self.block > 1:
            position = self.in_group(position, self.fetch, self.n)
        b = self.alias.draw(*self.stream(BLOCK_DRAW).two(position // self.block))
        if self.block == 1:
            return b
        wanted = self.stream(MEMBER_DRAW).bits(position) >> 1
        block, total, before = self.blocks[b], sum(self.blocks[b]), 0.0
        last = max(i for i, w in enumerate(block) if w > 0)
        for i, w in enumerate(block):
            before += w
            if i == last or threshold(before / total) > wanted:
                return b * self.block + i
        raise AssertionError

    def round(self, r: int) -> list[int]:
        if r not in self._rounds:
            count = min(self.round_size, self.n - r * self.round_size)
            drawn = sorted(without_replacement(self.stream(ROUND_KEYS), r, self.weights)[:count])
            self._rounds[r] = [drawn[self.in_blocks(i, count, self.block, r)] for i in range(count)]
        return self._rounds[r]


def without_replacement(stream: Stream, r: int, weights: list[float]) -> list[int]:
    keys = []
    for i, w in enumerate(weights):
        if w > 0:
            u = ((stream.bits(i, r) >> 11) + 0.5) / 2.0**53
            keys.append((-math.log(u) / w, i))
    return [i for _, i in sorted(keys)]


def members_by_class(labels: list[int]) -> list[list[int]]:
    return [[i for i, x in enumerate(labels) if x == c] for c in sorted(set(labels) - {-1})]


class ClassBalancedSampling(Order):
    def __init__(self, labels, block_size=8, total_size=None, smoothing=0.0, **key):
        super().__init__(**key)
        self.classes, self.block = members_by_class(labels), block_size
        total = sum(map(len, self.classes))
        self.n = total_size or total
        mean = total / len(self.classes)
        self.alias = Alias([len(c) / (len(c) + smoothing * mean) for c in self.classes])

    def __getitem__(self, position: int) -> int:
        if self.block > 1:
            position = self.in_group(position, self.fetch, self.n)
        draw, offset = divmod(position, self.block)
        members = self.classes[self.alias.draw(*self.stream(BLOCK_DRAW).two(draw))]
        first = self.stream(MEMBER_DRAW).bounded(draw, len(members))
        return members[(first + offset) % len(members)]


class WeightedCellSampler(Order):
    def __init__(self, labels, replacement=True, curriculum_warmup_epochs=0, **key):
        super().__init__(**key)
        self.classes = members_by_class(labels)
        self.all = [row for c in self.classes for row in c]
        self.a = (
            1.0 if self.epoch >= curriculum_warmup_epochs else self.epoch / curriculum_warmup_epochs
        )
        self.drawn = None
        if not replacement:
            n, k = len(self.all), len(self.classes)
            weights = [
                (1 - self.a) / n + self.a / (k * float(len(c))) for c in self.classes for _ in c
            ]
            self.drawn = [
                self.all[i] for i in without_replacement(self.stream(ROUND_KEYS), 0, weights)
            ]

    def __getitem__(self, position: int) -> int:
        if self.drawn is not None:
            return self.drawn[position]
        choice, which = self.stream(BLOCK_DRAW).two(position)
        members = self.all
        if choice >> 1 < threshold(self.a):
            members = self.classes[which * len(self.classes) >> 64]
        return members[self.stream(MEMBER_DRAW).bounded(position, len(members))]


class GroupSampling(Order):
    def __init__(self, groups, drop_last=False, **key):
        super().__init__(**key)
        self.groups = members_by_class(groups)
        self.before = [0]
        for members in self.groups:
            full, rest = divmod(len(members), self.step)
            self.before.append(self.before[-1] + full + (1 if rest and not drop_last else 0))
        self.n = self.before[-1] * self.step

    def __getitem__(self, position: int) -> int:
        slot, offset = divmod(position, self.step)
        batch = self.permutation(GROUP_BATCH, 0, self.before[-1])[slot]
        g = bisect.bisect_right(self.before, batch) - 1
        members = self.groups[g]
        at = (batch - self.before[g]) * self.step + offset
        row = members[self.permutation(GROUP_MEMBER, g, len(members), 4096)[at % len(members)]]
        return row if at < len(members) else ~row


def plan(
    order,
    length: int,
    *,
    batch_size: int,
    fetch_factor: int = 1,
    rank: int = 0,
    world_size: int = 1,
    group=False,
    consumed=0,
    first_run=None,
):
    """Batches of one rank, padded, as lists of (row, is_padding).

    From the start of an epoch; or from ``consumed`` samples on, in the dealing order of the first
    run: its (world_size, batch_size, fetch_factor).
    """
    ranks, size, factor = first_run or (world_size, batch_size, fetch_factor)
    step, round_size = ranks * size, ranks * size * factor
    rounds_end = length - length % round_size if group else 0
    share = -(-(length - consumed) // world_size)
    batches = []
    for done in range(0, share, batch_size):
        rows = min(batch_size, share - done)
        batch = []
        for i in range(rows):
            dealt = done * world_size + (rank * rows + i if group else rank + i * world_size)
            dealt += consumed
            position = dealt % length
            if position < rounds_end:
                in_round = position % round_size
                in_step = in_round % step
                position += -in_round + in_step // size * size * factor
                position += in_round // step * size + in_step % size
            row = order[position]
            batch.append((row if row >= 0 else ~row, dealt >= length or row < 0))
        batches.append(batch)
    return batches


def vectors() -> dict[str, list[int]]:
    """Name of a test vector -> the first samples of an order."""
    key = {"seed": 42, "epoch": 3, "step_samples": 4, "fetch_samples": 16}
    weights = [0.0 if i % 5 == 4 else 1.0 + i % 7 for i in range(50)]
    labels = [-1 if i % 9 == 8 else i * i % 4 for i in range(50)]
    out = {
        "streaming": Streaming(range(50), shuffle=True, **key).first(20),
        "streaming_buffer": Streaming(range(50), shuffle_buffer=6, **key).first(20),
        "blocks": BlockShuffling(range(1003), 8, **key).first(20),
        "blocks_drop_last": BlockShuffling(range(50), 8, drop_last=True, **key).first(20),
        "single": BlockShuffling(range(1000), 1, **key).first(20),
        "single_huge": BlockShuffling(range(10_000_000_007), 1, **key).first(12),
        "blocks_huge": BlockShuffling(range(10_000_000_007), 64, **key).first(12),
        "group_huge": Streaming(
            range(100_000), shuffle=True, **(key | {"fetch_samples": 70_000})
        ).first(12),
        "weighted": BlockWeightedSampling(weights, 8, **key).first(20),
        "weighted_single": BlockWeightedSampling(weights, 1, **key).first(20),
        "weighted_rounds": BlockWeightedSampling(weights, 4, 35, False, 15, **key).first(35),
        "balanced": ClassBalancedSampling(labels, 4, smoothing=0.5, **key).first(20),
        "balanced_single": ClassBalancedSampling(labels, 1, **key).first(20),
        "curriculum": WeightedCellSampler(labels, curriculum_warmup_epochs=5, **key).first(20),
        "curriculum_once": WeightedCellSampler(labels, False, 5, **key).first(20),
        "groups": GroupSampling(labels, **key).first(24),
    }
    for name, group in (("plan_interleave", False), ("plan_group", True)):
        order = BlockShuffling(
            range(50), 8, **(key | {"fetch_samples": 12 if group else 36, "step_samples": 12})
        )
        batches = plan(order, 50, batch_size=4, fetch_factor=3, rank=2, world_size=3, group=group)
        out[name] = [row for batch in batches for row, _ in batch]
    return out


def main() -> None:
    for name, samples in vectors().items():
        print(f"{name}: {', '.join(map(str, samples))}")


if __name__ == "__main__":
    main()
