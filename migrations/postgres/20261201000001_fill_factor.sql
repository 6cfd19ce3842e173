-- An order is written once and updated up to three times, the first time to a longer row: with room left on its page the
-- update is HOT and writes no index. It holds for pages that are filled from now on; nothing is rewritten or locked for long.
ALTER TABLE orders SET (fillfactor = 50);
