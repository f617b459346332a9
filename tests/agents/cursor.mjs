// Cursor's own library, which its command line is made of, begins a session: it starts the servers that the person has set up, and loads the
// skills. Its service is one on loopback that knows a model, and nothing else. Says what came of it as soon as both are there.

import child from "node:child_process";
import http from "node:http";
import { syncBuiltinESMExports } from "node:module";

const service = http.createServer((request, response) => {
	request.resume();
	request.on("end", () => {
		response.setHeader("content-type", "application/json");
		response.end(JSON.stringify(request.url.endsWith("/models") ? { items: [{ id: "m" }] } : { accessToken: "none" }));
	});
});
await new Promise((listens) => service.listen(0, "127.0.0.1", listens));
process.env.CURSOR_BACKEND_URL = `http://127.0.0.1:${service.address().port}`;

const seen = new Set();
function see(what, told) {
	if (String(told).includes(what)) seen.add(what);
	if (seen.size === 2) end();
}
function end() {
	write.call(process.stdout, seen.has(ANSWERED) ? "sesame Connected\n" : "no server\n");
	write.call(process.stdout, seen.has(LOADED) ? "skills/sesame\n" : "no skill\n");
	process.exit(0);
}

const ANSWERED = '"serverInfo"';
const LOADED = "skillCount: 1";
const { spawn } = child;
child.spawn = (command, words, ...more) => {
	const started = spawn(command, words, ...more);
	if (String(words).endsWith("mcp")) started.stdout.on("data", (told) => see(ANSWERED, told));
	return started;
};
syncBuiltinESMExports();
const { write } = process.stdout;
for (const stream of [process.stdout, process.stderr]) {
	stream.write = (told, ...more) => {
		see(LOADED, told);
		return write.call(stream, told, ...more);
	};
}

const { Agent } = await import(process.argv[2]);
const agent = await Agent.create({
	apiKey: "none",
	model: { id: "m" },
	local: { cwd: process.cwd(), settingSources: ["user"] },
});
await (await agent.send("hello")).wait();
end();
