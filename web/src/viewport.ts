// Pan and zoom of a drawing: a transform of one group, set without drawing anything again.

/** Pixels a pointer may move while it clicks. */
export const STILL = 4;

const LEAST = 0.02;
const MOST = 3;

/** Below this scale the text of cards cannot be read, and they show their names in large letters instead. */
const FAR = 0.5;

/** Below this scale not even those can be read. */
const TINY = 0.12;

/** The width of a screen, in pixels, on which a large network cannot be read as a whole. */
export const NARROW = 560;

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export class Viewport {
  private x = 0;
  private y = 0;
  private scale = 1;
  private svg: SVGSVGElement | null = null;
  private group: SVGGElement | null = null;
  private pointers = new Map<number, { x: number; y: number }>();
  moved = false;

  /** `box`: the part of the drawing that is all of it now; `top`: the middle of what is uppermost. */
  constructor(
    public box: Box,
    private readonly top: number,
  ) {}

  attach(svg: SVGSVGElement, group: SVGGElement): () => void {
    this.svg = svg;
    this.group = group;
    svg.addEventListener("wheel", this.onWheel, { passive: false });
    const observer = new ResizeObserver(() => {
      if (!this.moved) this.begin();
    });
    observer.observe(svg);
    return () => {
      observer.disconnect();
      svg.removeEventListener("wheel", this.onWheel);
    };
  }

  private apply(): void {
    this.group?.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.scale})`);
    this.group?.classList.toggle("far", this.scale < FAR);
  }

  /** Show all, or where that could not be read, as on a narrow screen, the top of it. */
  begin(): void {
    this.fit();
    const room = this.svg?.getBoundingClientRect();
    if (!room || this.scale >= (room.width < NARROW ? FAR : TINY)) return;
    this.scale = FAR + 0.1;
    this.x = room.width / 2 - this.top * this.scale;
    this.y = 48 - this.box.y * this.scale;
    this.apply();
  }

  /** Show all. */
  fit(): void {
    const room = this.svg?.getBoundingClientRect();
    if (!room || !room.width || !room.height) return;
    const margin = Math.min(24, room.width / 20);
    const { x, y, width, height } = this.box;
    const whole = Math.min((room.width - 2 * margin) / width, (room.height - 2 * margin) / height, 1.15);
    this.scale = Math.max(whole, LEAST);
    this.x = (room.width - width * this.scale) / 2 - x * this.scale;
    this.y = Math.max(margin, (room.height - height * this.scale) / 2) - y * this.scale;
    this.moved = false;
    this.apply();
  }

  zoom(factor: number, x?: number, y?: number): void {
    const room = this.svg?.getBoundingClientRect();
    if (!room) return;
    const [atX, atY] = [x ?? room.width / 2, y ?? room.height / 2];
    const scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x = atX - ((atX - this.x) * scale) / this.scale;
    this.y = atY - ((atY - this.y) * scale) / this.scale;
    this.scale = scale;
    this.moved = true;
    this.apply();
  }

  /** Bring a place into sight, in the middle if it is out of it; unless `far`, at a scale that can be read. */
  show(x: number, y: number, width: number, height: number, far = false): void {
    const room = this.svg?.getBoundingClientRect();
    if (!room) return;
    const inside = (): boolean => {
      const [left, top] = [x * this.scale + this.x, y * this.scale + this.y];
      return left > 0 && top > 0 && left + width * this.scale < room.width && top + height * this.scale < room.height;
    };
    if ((far || this.scale >= FAR) && inside()) return;
    if (!far) this.scale = Math.max(this.scale, 0.85);
    this.x = room.width / 2 - (x + width / 2) * this.scale;
    this.y = room.height / 2 - (y + height / 2) * this.scale;
    this.moved = true;
    this.apply();
  }

  private onWheel = (event: WheelEvent): void => {
    event.preventDefault();
    const room = this.svg?.getBoundingClientRect();
    if (!room) return;
    const step = event.deltaMode === 1 ? 20 : 1;
    this.zoom(Math.exp(-event.deltaY * step * 0.0015), event.clientX - room.left, event.clientY - room.top);
  };

  press(event: PointerEvent): void {
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  /** Move with one pointer, zoom with two. */
  move(event: PointerEvent): void {
    const last = this.pointers.get(event.pointerId);
    const room = this.svg?.getBoundingClientRect();
    if (!last || !room) return;
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
    // A click that trembles is a click: what was pressed is taken along only when it moves.
    const held = this.svg!.hasPointerCapture(event.pointerId);
    if (!held && this.pointers.size === 1 && Math.hypot(dx, dy) <= STILL) return;
    if (!held) this.svg!.setPointerCapture(event.pointerId);
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)![1];
      const before = Math.hypot(last.x - other.x, last.y - other.y);
      const now = Math.hypot(event.clientX - other.x, event.clientY - other.y);
      if (before > 0) this.zoom(now / before, other.x - room.left, other.y - room.top);
    }
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.pointers.size === 1) {
      this.x += dx;
      this.y += dy;
      this.moved = true;
      this.apply();
    }
  }

  release(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
  }
}
