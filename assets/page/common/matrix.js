// Matrices as the server packs them (bert/studies/base.py): 8 bits a value, or all of a float32.

async function inflate(packed) {
  const letters = atob(packed);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A matrix with its bytes; its last two sides are rows and columns. */
export async function unpack({ shape, limit, zero, packed }) {
  return { rows: shape.at(-2), columns: shape.at(-1), limit, zero, bytes: await inflate(packed) };
}

/** What a byte of a matrix stands for. */
export function valueOf({ limit, zero }, byte) {
  return (byte - zero) / (255 - zero) * limit;
}

/** The numbers of an unpacked matrix, row by row. */
export function valuesOf(matrix) {
  return matrix.limit === undefined ? new Float32Array(matrix.bytes.buffer)
    : Float32Array.from(matrix.bytes, (byte) => valueOf(matrix, byte));
}
