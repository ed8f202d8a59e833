// Lines of two programs side by side: the longest common subsequence of lines; of very long programs by equal positions.

const MOST_CELLS = 4_000_000;

export function diffLines(left, right) {
  let first = 0;
  while (first < left.length && first < right.length && left[first] === right[first]) first += 1;
  let last = 0;
  while (last < left.length - first && last < right.length - first && left[left.length - 1 - last] === right[right.length - 1 - last]) last += 1;
  const head = left.slice(0, first).map((line, index) => [index, index]);
  const tail = Array.from({ length: last }, (_, index) => [left.length - last + index, right.length - last + index]);
  return [...head, ...middle(left.slice(first, left.length - last), right.slice(first, right.length - last), first), ...tail];
}

function middle(left, right, offset) {
  const rows = left.length, columns = right.length;
  if (rows * columns > MOST_CELLS) return [...left.map((_, index) => [offset + index, null]), ...right.map((_, index) => [null, offset + index])];
  const common = Array.from({ length: rows + 1 }, () => new Uint32Array(columns + 1));
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) {
      common[i][j] = left[i] === right[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const pairs = [];
  let i = 0, j = 0;
  while (i < rows || j < columns) {
    if (i < rows && j < columns && left[i] === right[j]) pairs.push([offset + i++, offset + j++]);
    else if (j >= columns || (i < rows && common[i + 1][j] >= common[i][j + 1])) pairs.push([offset + i++, null]);
    else pairs.push([null, offset + j++]);
  }
  return pairs;
}

// Words of lines that one program lacks: for each program a map of line -> [[text, whether it differs], ...], by runs of changed lines.
export function diffWords(left, right, pairs) {
  const marked = [new Map(), new Map()];
  const flush = (run) => {
    const lines = [0, 1].map((number) => run.map((pair) => pair[number]).filter((at) => at !== null));
    if (!lines[0].length || !lines[1].length) return;
    const words = [left, right].map((program, number) => lines[number].flatMap((at) => [...(program[at].match(/\w+|\s+|./gu) ?? []), { at }]));
    const same = diffLines(...words.map((some) => some.map((word) => (typeof word === "string" ? word : "\n"))));
    for (const number of [0, 1]) {
      let pieces = [];
      for (const pair of same.filter((each) => each[number] !== null)) {
        const word = words[number][pair[number]];
        if (typeof word === "string") pieces.push([word, pair[1 - number] === null]);
        else { marked[number].set(word.at, pieces); pieces = []; }
      }
    }
  };
  let run = [];
  for (const pair of [...pairs, [0, 0]]) {
    if (pair.includes(null)) run.push(pair);
    else { flush(run); run = []; }
  }
  return marked;
}
