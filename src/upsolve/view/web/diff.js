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
