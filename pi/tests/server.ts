/** A throw-away daemon for tests: what it does with each line it gets is the test's to say. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class Place {
  readonly directory = mkdtempSync(join(tmpdir(), "sesame-"));
  readonly path = join(this.directory, "sesamed.sock");
  readonly requests: Record<string, unknown>[] = [];
  #server: Server | undefined;
  readonly #sockets = new Set<Socket>();

  constructor() {
    chmodSync(this.directory, 0o700);
  }

  /** Listen; `answer` is called with each request. */
  async listen(answer: (socket: Socket, request: Record<string, unknown>) => void): Promise<string> {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      let received = "";
      socket.on("error", () => {});
      socket.on("data", (data) => {
        received += String(data);
        for (const line of received.split("\n").slice(0, -1)) {
          const request = JSON.parse(line) as Record<string, unknown>;
          this.requests.push(request);
          answer(socket, request);
        }
        received = received.slice(received.lastIndexOf("\n") + 1);
      });
    });
    await new Promise<void>((listening) => this.#server?.listen(this.path, listening));
    return this.path;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const server = this.#server;
    if (server) await new Promise((closed) => server.close(closed));
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** An answer as the daemon writes it. */
export function reply(request: Record<string, unknown>, body: object): string {
  return `${JSON.stringify({ jsonrpc: "2.0", id: request.id, ...body })}\n`;
}
