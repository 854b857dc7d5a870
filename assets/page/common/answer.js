// One answer of the server: the payload with its matrices unpacked, and every matrix made from it.

import { unpack } from "./matrix.js";
import { ask } from "./server.js";
import { state } from "./store.js";

export class Answer {
  /** Unpack what bert/page/answer.py sends. */
  static async from(payload) {
    return new Answer(payload, (await unpack(payload.matrices)).bytes);
  }

  constructor(payload, bytes) {
    Object.assign(this, payload);
    this.size = payload.pieces.length;
    this.bytes = bytes;
    this.kept = new Map();
  }

  /** Fetch what attention moves: the norm of each summand, head by head, as a share of the largest. */
  async fetchMoved() {
    const { bytes } = await unpack(this.moved ?? await ask("moved", [this.text]));
    this.movedBytes = bytes;
  }

  /** Whether the matrices are those of value-weighted attention. */
  get isMoved() {
    return state.moved && Boolean(this.movedBytes);
  }

  /** The bytes of one stored matrix: head by head, the rollout last. */
  stored(index) {
    const area = this.size * this.size;
    const bytes = this.isMoved && index < this.layers * this.heads ? this.movedBytes : this.bytes;
    return bytes.subarray(index * area, (index + 1) * area);
  }

  /** Weights (0–1, row by row) of a layer and head; each may be "mean", the layer "rollout". */
  matrix(layer, head) {
    const name = `${layer}/${head}/${this.isMoved}`;
    if (!this.kept.has(name)) this.kept.set(name, this.average(this.indices(layer, head)));
    return this.kept.get(name);
  }

  indices(layer, head) {
    if (layer === "rollout") return [this.layers * this.heads];
    const layers = layer === "mean" ? range(this.layers) : [layer - 1];
    const heads = head === "mean" ? range(this.heads) : [head - 1];
    return layers.flatMap((l) => heads.map((h) => l * this.heads + h));
  }

  average(indices) {
    const sum = new Float32Array(this.size * this.size);
    for (const index of indices) {
      const bytes = this.stored(index);
      for (let i = 0; i < sum.length; i++) sum[i] += bytes[i];
    }
    const scale = 255 * indices.length;
    for (let i = 0; i < sum.length; i++) sum[i] /= scale;
    return sum;
  }

  /** The tokens that are shown under the token options: name, places of its pieces, special or not. */
  tokens(words, hideSpecial) {
    const all = words ? this.words.map(({ name, places }) => ({ name, places }))
      : this.pieces.map((name, place) => ({ name, places: [place] }));
    for (const token of all) token.special = this.special[token.places[0]];
    return hideSpecial ? all.filter((token) => !token.special) : all;
  }

  /** One matrix under the token options, as bert.explain.attention.shown makes it. */
  shown(layer, head, words, hideSpecial) {
    const name = `${layer}/${head}/${words}/${hideSpecial}/${this.isMoved}`;
    if (!this.kept.has(name)) {
      this.kept.set(name, this.makeShown(this.matrix(layer, head), words, hideSpecial));
    }
    return this.kept.get(name);
  }

  makeShown(matrix, words, hideSpecial) {
    const tokens = this.tokens(words, hideSpecial);
    const size = tokens.length;
    const weights = words || hideSpecial ? new Float32Array(size * size) : matrix;
    if (words || hideSpecial) {
      tokens.forEach((query, row) => tokens.forEach((key, column) => {
        let sum = 0;
        for (const q of query.places) for (const k of key.places) sum += matrix[q * this.size + k];
        weights[row * size + column] = sum / query.places.length;
      }));
    }
    return { tokens, size, weights, hiddenShare: this.hiddenShare(matrix, tokens, hideSpecial) };
  }

  /** How much of their attention the shown tokens gave to hidden ones. */
  hiddenShare(matrix, tokens, hideSpecial) {
    if (!hideSpecial || !tokens.length) return 0;
    const hidden = range(this.size).filter((place) => this.special[place]);
    const shares = tokens.map(({ places }) => places.reduce((sum, place) => sum
      + hidden.reduce((part, k) => part + matrix[place * this.size + k], 0), 0) / places.length);
    return shares.reduce((sum, share) => sum + share, 0) / shares.length;
  }

  /** The tag of a head in the form {name, share, token}; null for means and rollout. */
  tag(layer, head) {
    return this.tags[layer - 1]?.[head - 1] ?? null;
  }
}

export function range(count) {
  return Array.from({ length: count }, (_, i) => i);
}
