/**
 * In pi's own process: its session, loader and scripted model are real, the daemon is whatever SESAME_SOCKET names. Needs
 * pi's library beside it, so pytest runs it. Prints what came out as JSON.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fauxAssistantMessage, fauxProvider, fauxToolCall } from "@earendil-works/pi-ai";
import { createAgentSession, DefaultResourceLoader, ModelRuntime, SessionManager, SettingsManager } from "@earendil-works/pi-coding-agent";

const [extension, ...calls] = process.argv.slice(2);
const directory = mkdtempSync(join(tmpdir(), "inside-"));
const faux = fauxProvider({ provider: "faux" });
faux.setResponses([...calls.map((call) => fauxAssistantMessage(fauxToolCall(...JSON.parse(call)), { stopReason: "toolUse" })), fauxAssistantMessage("done")]);

const settingsManager = SettingsManager.inMemory({});
const resourceLoader = new DefaultResourceLoader({
  cwd: directory,
  agentDir: directory,
  settingsManager,
  additionalExtensionPaths: [extension],
  extensionFactories: [(pi) => pi.registerProvider(faux.provider)],
});
await resourceLoader.reload();
const { session } = await createAgentSession({
  cwd: directory,
  agentDir: directory,
  modelRuntime: await ModelRuntime.create({ authPath: join(directory, "auth.json"), modelsPath: join(directory, "models.json") }),
  settingsManager,
  resourceLoader,
  model: faux.getModel(),
  sessionManager: SessionManager.inMemory(directory),
});
await session.bindExtensions({});
await session.prompt("go");

const plain = { fg: (_colour, text) => text, bold: (text) => text };
const rows = [];
for (const message of session.messages) {
  if (message.role !== "toolResult") continue;
  const tool = session.getToolDefinition(message.toolName);
  const call = JSON.parse(calls.find((one) => JSON.parse(one)[0] === message.toolName));
  const drawn = (component) => [10, 80].map((width) => component.render(width));
  rows.push({
    tool: message.toolName,
    isError: message.isError,
    text: message.content[0].text,
    call: drawn(tool.renderCall(call[1], plain, {})),
    folded: drawn(tool.renderResult(message, { expanded: false, isPartial: false }, plain, {})),
    expanded: drawn(tool.renderResult(message, { expanded: true, isPartial: false }, plain, {})),
    partial: drawn(tool.renderResult({ content: [], details: undefined }, { expanded: false, isPartial: true }, plain, {})),
  });
}
console.log(JSON.stringify({ errors: resourceLoader.getExtensions().errors, tools: session.getActiveToolNames(), rows }));
session.dispose();
rmSync(directory, { recursive: true, force: true });
