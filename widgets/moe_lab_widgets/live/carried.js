/** Patches of a sample that a visitor carries to other places. Routers score each patch alone, so nothing else changes. */

import { upTo } from "./plain.js";

/** A place in the sample of a class, one of `count`. @typedef {{ side: number, place: number, count: number }} Carry */
/** @typedef {import("./pen.js").Table} Table */

export class Carried {
  constructor() {
    /** Which patch lies at each place, by class. @type {Map<number, number[]>} */
    this.orders = new Map();
    /** What the pointer holds. @type {Carry | null} */
    this.held = null;
    /** Whether it has been carried elsewhere since. */
    this.moved = false;
    /** What is said of the latest one. */
    this.said = "";
  }

  /** Lays all patches where they were. */
  clear() {
    this.orders.clear();
    this.hold(null);
    this.said = "";
  }

  /** Takes a patch, or lets it go. @param {Carry | null} patch */
  hold(patch) {
    this.held = patch;
    this.moved = false;
  }

  /** Carries what is held to the place under the pointer, if that is another one of its sample; says whether it was.
   * @param {Carry} under */
  over(under) {
    if (!this.held || under.side !== this.held.side || under.place === this.held.place) return false;
    this.move(this.held, under.place);
    this.held = under;
    this.moved = true;
    return true;
  }

  /** Moves what lies at a place to another one, which exists; those between make room.
   * @param {Carry} from @param {number} to */
  move({ side, place, count }, to) {
    const order = this.orders.get(side) ?? upTo(count);
    order.splice(to, 0, ...order.splice(place, 1));
    this.orders.set(side, order);
  }

  /** Marks with all patches where they lie now. @param {any[]} marks */
  laid(marks) {
    return marks.map((one) => {
      const order = one.mark === "Tiles" && this.orders.get(one.side);
      if (!order) return one;
      const { kept, roles, sides, ink } = one;
      const rows = { roles: inOrder(roles, order), sides: inOrder(sides, order), ink: ink && inOrder(ink, order) };
      const [experts, patches] = kept.sizes;
      const columns = upTo(experts).flatMap((expert) => order.map((patch) => kept.data[expert * patches + patch]));
      return { ...one, ...rows, kept: { sizes: kept.sizes, data: columns } };
    });
  }
}

/** A table with its rows in another order. @param {Table} table @param {number[]} order @returns {Table} */
function inOrder({ sizes, data }, order) {
  const each = data.length / order.length;
  const all = Array.from(data);
  return { sizes, data: order.flatMap((row) => all.slice(row * each, (row + 1) * each)) };
}
