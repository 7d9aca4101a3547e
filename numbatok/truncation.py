"""The longest prefix, and the longest suffix, of a text that has at most so many tokens."""

import numpy as np
import numpy.typing as npt

from numbatok.counting import NEAR, Bytes, Places, Traced
from numbatok.errors import DisallowedToken
from numbatok.ids import Ids
from numbatok.kernels import dtypes, merge
from numbatok.kernels.pieces import agreeing_cuts
from numbatok.memory import address_of

BATCH = 64  # candidates counted at once
FEW_TOKENS = 1 << 10  # which the text's beginning is encoded for at once
SAMPLE = 4096  # tokens from whose bytes those of a large budget are guessed
SAMPLED_PART = 1 << 17  # bytes of a text's part that a sample of 1 KiB stands for, at least
MOST_SAMPLES = 128
MEETINGS = 8  # that are tried
LONG_PIECE = 1024  # bytes of a piece from which on its parts are merged, not all of it
MOST_REMERGED = 1 << 20  # bytes of a long piece that are merged again and again to find its longest suffix
LOCAL_TOKENS = 24  # tokens merged anew in a long piece, at first


class _Search:
    """What both ends have in common: candidates around the place where the budget runs out, counted in batches.

    A candidate's count is that of the part before (for a suffix: after) the last token and one more. So once the counts
    of as many bytes as a token has, or as the piece there has, are all at the budget or above, those of all candidates
    beyond are above it. Between the bytes of a character nothing is counted; there a count is at most 3 less.
    """

    def __init__(self, text: Bytes) -> None:
        self.text = text
        self._view: npt.NDArray[np.int64] | None = None

    def wide(self, pieces: Places) -> int:
        """How many bytes of counts at or above the budget settle that no candidate is beyond, by the pieces there."""
        widest = int(np.diff(pieces).max(initial=0))
        return max(NEAR, self.text.longest if 2 * widest > NEAR else self.text.longest_added)

    @staticmethod
    def wider(width: int, tokens: int, wanted: int) -> int:
        """How many bytes will hold the ``wanted`` tokens and some more, where ``width`` bytes held ``tokens``."""
        return int(1.03 * width * (wanted + 4 * NEAR) / max(tokens, 1)) + NEAR

    def slack(self, begin: int, end: int) -> int:
        """How much less a count between the bytes of a character may be."""
        return 3 if (self.text.data[max(begin, 0) : end] >= 0x80).any() else 0

    def merged(self, begin: int, end: int) -> Ids:
        """The ids that merging alone makes of a part of a piece."""
        if self._view is None:
            record: npt.NDArray[np.int64] = self.text.engine.view_record.copy()
            record[dtypes.VIEW_WHOLE_LIMIT] = 0
            self._view = record
        scratch = self.text.scratch
        arguments = address_of(self._view), scratch.address, self.text.address + begin, end - begin
        merger = merge.merge_pretoken if self.text.is_plain else merge.merge_pretoken_by_options
        while (status := merger(*arguments)) < 0:
            scratch.record[dtypes.WORK_NEEDED] = end - begin
            scratch.mend(status)
        return scratch._arrays[dtypes.WORK_SYMBOLS][:status].astype(np.uint32)


class Prefix(_Search):
    """Prefixes of a text."""

    def longest_within(self, room: int) -> int:
        """The end of the longest prefix of at most ``room`` tokens."""
        text = self.text
        if room == 0:
            return 0
        base = done = 0
        if room > FEW_TOKENS:
            traced = text.traced(0, text.size, most_ids=room, counted=True)
            if traced.is_done and traced.total <= room:
                return text.size
            base, done = traced.before(room - 256)
        need = room - done
        width = 4 * need + 1024
        while True:
            end = text.character_at(min(base + width, text.size))
            ids = text.encode(base, end)
            if len(ids) > need + NEAR or end == text.size:
                break
            width = self.wider(width, len(ids), need)
        if len(ids) <= need:
            return text.size
        ends = text.token_ends(base, ids)
        added = text.added_tokens(ids, ends)
        place = text.character_at(int(ends[need - 1]))
        # Places before this one are asked only if no later one will do.
        while True:
            pieces = text.pieces(base, place, added, final=False)
            near = int(np.searchsorted(pieces, place - NEAR, side="right"))
            anchor = int(pieces[near - 1]) if near else base
            before = done + int(np.searchsorted(ends, anchor, side="right"))
            best = self._best(room, anchor, before, place, added, ends, end)
            if best >= 0:
                return best
            if place == base:
                return base
            place = text.character_at(max(place - 4 * NEAR, base))

    def _best(self, room: int, anchor: int, before: int, place: int, added: Places, ends: Places, end: int) -> int:
        """The last candidate from ``place`` on that has at most ``room`` tokens, or -1.

        ``anchor`` is a piece's start that stays, with ``before`` tokens before it; up to ``end`` the ids are known.
        """
        text = self.text
        if place - anchor > LONG_PIECE:
            return self._best_in_long(room, anchor, before, place, ends)
        ahead = text.character_at(min(place + 16 * NEAR, end))
        wide = self.wide(np.append(text.pieces(anchor, ahead, added, final=False), ahead))
        best = -1
        below = begin = place
        while begin <= text.size:
            candidates = text.characters(begin, min(begin + BATCH, text.size))
            counts = before + text.count(np.full(len(candidates), anchor), candidates)
            good = candidates[counts <= room]
            if len(good):
                best = int(good[-1])
            low = candidates[counts < room + self.slack(begin - 8, begin + BATCH + 8)]
            if len(low):
                below = int(low[-1])
            begin = int(candidates[-1]) + 1
            if begin - below > wide:
                break
            if begin - anchor > 2 * LONG_PIECE:
                return max(best, self._best_in_long(room, anchor, before, place, ends))
        return best

    def _best_in_long(self, room: int, anchor: int, before: int, place: int, ends: Places) -> int:
        """:meth:`_best` inside of a long piece that begins at ``anchor``: its last tokens alone are merged anew.

        The tokens of a prefix are those of the whole piece up to a place where two of them stand side by side that
        merging leaves apart: whether it does shows in these two alone.
        """
        text = self.text
        settled = int(np.searchsorted(ends, anchor, side="right"))
        first = int(np.searchsorted(ends, place, side="right"))
        found = []
        below = place
        for candidate in text.characters(place, min(place + LONG_PIECE, text.size)).tolist():
            count = self._count_from(candidate, ends, settled, first)
            if count is None:
                break
            if before + count <= room:
                found.append(candidate)
            if before + count < room + self.slack(place, candidate):
                below = candidate
            if candidate - below >= text.longest:
                break
        for candidate in reversed(found[-BATCH:]):
            if before + int(text.count(np.array([anchor]), np.array([candidate]))[0]) <= room:
                return int(candidate)
        return -1

    def _count_from(self, candidate: int, ends: Places, settled: int, first: int) -> int | None:
        """Tokens from the piece's start, token ``settled``, to a candidate after token ``first``; None if not found."""
        back = LOCAL_TOKENS
        while True:
            token = max(first - back, settled)
            begin = int(ends[token - 1]) if token else 0
            ids = self.merged(begin, candidate)
            if token == settled:
                return len(ids)
            edge = int(ends[token - 2]) if token > 1 else 0
            size = int(self.text.sizes[ids[0]]) if len(ids) else 0
            pair = self.merged(edge, begin + size)
            if len(pair) == 2 and int(self.text.sizes[pair[0]]) == begin - edge:
                return token - settled + len(ids)
            back *= 2


class Suffix(_Search):
    """Suffixes of a text."""

    def __init__(self, text: Bytes) -> None:
        super().__init__(text)
        self._counted: list[tuple[int, int]] = []  # suffixes that had to be counted whole, and their tokens

    def longest_within(self, room: int) -> int:
        """The begin of the longest suffix of at most ``room`` tokens."""
        text = self.text
        if room == 0:
            return text.size
        width = self._guess(room)
        begin = text.character_at(max(text.size - width, 0))
        traced = self._traced_from(begin)
        begin = traced.begin
        points, total = traced.points_in_text, traced.total
        while total <= room + NEAR and begin > 0:
            width = self.wider(width, total, room)
            earlier = text.character_at(max(text.size - width, 0))
            points, total = self._extended(earlier, begin, points, total)
            begin = earlier
        if total <= room:
            return 0
        # Around the place where the budget runs out a few tokens are looked at.
        places, before = points.T
        cut = total - room
        near = max(int(np.searchsorted(before, cut, side="right")) - 1, 0)
        near = max(int(np.searchsorted(places, places[near] - 4 * LONG_PIECE, side="right")) - 1, 0)
        far = int(np.searchsorted(before, cut + 2 * LONG_PIECE))
        begin, gone = points[near].tolist()
        ids = text.encode(begin, int(places[far]) if far < len(places) else text.size)
        total -= gone
        ends = text.token_ends(begin, ids)
        place = text.character_at(int(ends[cut - gone - 1]))
        high = text.character_at(min(place + BATCH, text.size))
        while True:
            best = self._best(room, place, high, begin, ids, ends, total)
            if best >= 0:
                return best
            if high == text.size:
                return text.size
            place, high = high, text.character_at(min(high + 4 * NEAR, text.size))

    def _traced_from(self, begin: int) -> Traced:
        """The text traced from a place on, or all of it where little is saved: that place may turn out too late."""
        text = self.text
        if 8 * begin <= text.size:
            try:
                return text.traced(0, text.size, counted=True)
            except DisallowedToken:  # which may be in what is cut off
                if begin == 0:
                    raise
        return text.traced(begin, text.size, counted=True)

    def _extended(self, earlier: int, begin: int, points: Places, total: int) -> tuple[Places, int]:
        """(points, how many tokens there are) of the text from an earlier place on, where these are known from
        ``begin`` on.

        Only what is before, and a little more, is counted, where both have a piece that begins at the same place.
        """
        text = self.text
        stop = text.character_at(min(begin + 32 * NEAR, text.size))
        traced = text.traced(earlier, stop, counted=True)
        new = traced.points_in_text
        new = new[: np.searchsorted(new[:, 0], begin, side="right")]
        base, before = new[-1].tolist()
        both = [self._pieces_and_ends(place, stop) for place in (begin, base)]
        meetings = np.intersect1d(both[0][0][1:], both[1][0], assume_unique=True)
        if not len(meetings):
            traced = text.traced(earlier, text.size, counted=True)
            return traced.points_in_text, traced.total
        gone, more = (int(np.searchsorted(ends, meetings[0], side="right")) for _, ends in both)
        before += more
        later = points[points[:, 0] > meetings[0]] + (0, before - gone)
        return np.concatenate([new, later]), total - gone + before

    def _pieces_and_ends(self, begin: int, stop: int) -> tuple[Places, Places]:
        """Where the pieces of a part begin that stay, however the text goes on, and where its tokens end."""
        ids = self.text.encode(begin, stop)
        ends = self.text.token_ends(begin, ids)
        return self.text.pieces(begin, stop, self.text.added_tokens(ids, ends), final=False), ends

    def _guess(self, room: int) -> int:
        """About how many bytes of the text's end have ``room`` tokens, or fewer bytes."""
        text = self.text
        least = 4 * min(room, SAMPLE) + 1024
        parts = min(text.size // SAMPLED_PART, MOST_SAMPLES)
        if room <= SAMPLE or parts < 4:
            return least
        # By samples from all over: a wrong guess of a large part is paid by counting as much in vain.
        edges = np.linspace(0, text.size, parts + 1)
        begins = np.array([text.character_at(int(place)) for place in edges[:-1]])
        ends = np.array([text.character_at(int(place) + 1024) for place in edges[:-1]])
        try:
            tokens = np.diff(edges) * text.count(begins, ends) / (ends - begins)
        except DisallowedToken:  # which may be in what is cut off
            return least
        from_end = np.interp(1.02 * room, np.cumsum([0.0, *tokens[::-1]]), text.size - edges[::-1])
        return max(int(from_end), least)

    def _best(self, room: int, place: int, high: int, begin: int, ids: Ids, ends: Places, total: int) -> int:
        """The first candidate, before or after ``place`` but not after ``high``, of at most ``room`` tokens, or -1.

        From ``begin`` on there are ``total`` tokens, of which ``ids`` are the first, which have these ends.
        """
        text = self.text
        stop = text.character_at(min(high + 16 * NEAR, text.size))
        added = text.added_tokens(ids, ends)
        pieces = text.pieces(begin, stop, added, final=stop == text.size)
        around = int(np.searchsorted(pieces, place - 16 * NEAR))
        wide = self.wide(np.append(pieces[max(around - 1, 0) :], stop))
        meeting = self._meeting(pieces, added, high, stop)
        if meeting - place > LONG_PIECE:
            return self._best_in_long(room, place, total, ends)
        after = total - int(np.searchsorted(ends, meeting, side="right"))
        best, below = -1, high
        end = high
        while True:
            candidates = text.characters(max(end - BATCH, 0), end)
            candidates = candidates[candidates <= end]
            counts = self._counts(candidates, added, meeting, after, stop)
            good = candidates[counts <= room]
            if len(good):
                best = int(good[0])
            low = candidates[counts < room + self.slack(end - BATCH - 8, end + 8)]
            if len(low):
                below = int(low[0])
            first = int(candidates[0])
            if first == 0 or below - first >= wide:
                return best
            end = text.character_at(first - 1)
            if meeting - end > 2 * LONG_PIECE:
                found = self._best_in_long(room, place, total, ends)
                return found if found >= 0 and (best < 0 or found < best) else best

    @staticmethod
    def _is_meeting_of_added(added: npt.NDArray[np.int64], meeting: int) -> bool:
        return bool((added[:, 0] == meeting).any())

    def _meeting(self, pieces: Places, added: npt.NDArray[np.int64], high: int, stop: int) -> int:
        """A place after all candidates where the suffixes can be expected to go on alike; or the text's end.

        It is where an added token begins, or else a piece.
        """
        data, size = self.text.data, self.text.size
        tokens = added[(added[:, 0] > high) & (added[:, 1] <= stop - NEAR), 0]
        if len(tokens):
            return int(tokens[0])
        chosen = pieces[(pieces >= high + NEAR) & (pieces <= stop - 2 * NEAR)]
        for start in chosen[:BATCH].tolist():
            if data[start] == ord(" ") and data[start - 1] < 0x80 and chr(data[start - 1]).isalpha():
                return int(start)
        for start in chosen[:MEETINGS].tolist():  # before white space, say, no suffix is the same as if it ended there
            if self._agree(np.array([high], np.int64), start, stop)[0]:
                return int(start)
        return int(chosen[0]) if len(chosen) else size

    def _counts(self, candidates: Places, added: npt.NDArray[np.int64], meeting: int, after: int, stop: int) -> Places:
        """How many tokens each suffix has, where ``after`` of them come from ``meeting`` on."""
        text = self.text
        agree = np.ones(len(candidates), np.uint8)
        if meeting < text.size and not self._is_meeting_of_added(added, meeting):
            # Behind an added token all goes on alike.
            begins = candidates
            earlier = added[added[:, 0] < meeting]
            if len(earlier):
                begins = np.where(candidates <= earlier[-1, 0], earlier[-1, 1], candidates)
            agree = self._agree(begins, meeting, stop)
        counts = after + text.count(candidates, np.full(len(candidates), meeting))
        for number in np.flatnonzero(agree == 0)[::-1].tolist():
            counts[number] = self._count_whole(candidates[number : number + 1], added, stop)
        return counts

    def _agree(self, begins: Places, meeting: int, stop: int) -> npt.NDArray[np.uint8]:
        """1 for each suffix that can be counted in two parts, up to ``meeting`` and from there on."""
        agree = np.empty(len(begins), np.uint8)
        kept = np.empty(((meeting - int(begins.min())) >> 6) + 2, np.uint64)
        places = self.text.address, address_of(begins), len(begins), meeting, stop
        arguments = *places, address_of(kept), address_of(agree)
        while (status := agreeing_cuts(self.text.scratch.address, *arguments)) < 0:
            self.text.scratch.mend(status)
        return agree

    def _count_whole(self, candidate: Places, added: Places, stop: int) -> int:
        """How many tokens a suffix has; as far as it can be, those of a shorter one that was counted so before."""
        text = self.text
        begin = int(candidate[0])
        apart = ((added[:, 1] > begin) & (added[:, 0] < stop)).any()
        for counted, total in self._counted[-4:] if not apart else ():
            if begin < counted < stop and self._agree(candidate, counted, stop)[0]:
                return total + int(text.count(candidate, np.array([counted]))[0])
        total = int(text.count(candidate, np.array([text.size]))[0])
        self._counted.append((begin, total))
        return total

    def _best_in_long(self, room: int, place: int, total: int, ends: Places) -> int:
        """:meth:`_best` inside of a long piece: its first tokens alone are merged anew; see :class:`Prefix`.

        In a run of one character the tokens of a suffix hardly ever meet those of a longer one. Then they are all made,
        up to MOST_REMERGED bytes; what is found by then may not be the longest.
        """
        text = self.text
        known = [(ends, total)]
        merged_bytes = 0
        found = []
        below = place
        for candidate in text.characters(max(place - LONG_PIECE, 0), place)[::-1].tolist():
            for their_ends, their_total in known[:1] + known[1:][-2:]:
                count = self._count_to(candidate, their_ends, place, their_total)
                if count is not None:
                    break
            else:
                merged_bytes += text.size - candidate
                if merged_bytes > MOST_REMERGED:
                    break
                ids = text.encode(candidate, text.size)
                count = len(ids)
                known.append((text.token_ends(candidate, ids[:LONG_PIECE]), count))
            if count <= room:
                found.append(candidate)
            if count < room + self.slack(candidate, place):
                below = candidate
            if below - candidate >= text.longest:
                break
        for candidate in reversed(found[-BATCH:]):
            if int(text.count(np.array([candidate]), np.array([text.size]))[0]) <= room:
                return int(candidate)
        return -1

    def _count_to(self, candidate: int, ends: Places, place: int, total: int) -> int | None:
        """Tokens from a candidate on, where from some place on there are ``total`` of these ends; None if they differ.

        They are compared behind ``place``.
        """
        first = int(np.searchsorted(ends, place, side="right"))
        ahead = LOCAL_TOKENS
        while first + ahead + 1 < len(ends) and ahead <= 2 * LOCAL_TOKENS:
            token = first + ahead
            edge = int(ends[token - 1])
            ids = self.merged(candidate, edge)
            size = int(self.text.sizes[ids[-1]]) if len(ids) else 0
            pair = self.merged(edge - size, int(ends[token]))
            if len(pair) == 2 and int(self.text.sizes[pair[0]]) == size:
                return len(ids) + total - token
            ahead *= 2
        return None
