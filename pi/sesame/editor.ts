/** Text for the person's editor. pi draws it with the next key, or when its status line changes: so that is said to have changed. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";

export function putBack(ctx: ExtensionContext, text: string): void {
  ctx.ui.setEditorText(text);
  ctx.ui.setStatus("sesame", undefined);
}

export function paste(ctx: ExtensionContext, text: string): void {
  ctx.ui.pasteToEditor(text);
  ctx.ui.setStatus("sesame", undefined);
}
