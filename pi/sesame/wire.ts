/** The parts of the daemon's answers that we use; docs/protocol.md has all of them. */

export interface Hello {
  toolFamilies?: Record<string, string[]>;
}

export interface Session {
  sessionId: string;
  shortId?: string;
  key?: string;
  workstation?: string;
  person?: string | null;
  source: string;
  path: string;
  cwd: string | null;
  gitBranch: string | null;
  name: string | null;
  summary?: string | null;
  description?: string | null;
  tags?: string[];
  created: string;
  modified: string;
  messageCount: number;
  gone: boolean;
  subagent: boolean;
  orphan?: boolean;
  parentSessionId?: string | null;
  asOf?: string | null;
}

export interface Match {
  sessionId: string;
  shortId?: string;
  kind: "message" | "tool_call" | "heading";
  role: string | null;
  toolName: string | null;
  msgIdx: number | null;
  timestamp: string | null;
  field?: string | null;
}

export interface Hit extends Session {
  score: number;
  matchedSnippet: string;
  highlights?: [number, number][];
  matchedWords: string[];
  missingWords: string[];
  match: Match | null;
  similar: number;
}

export interface Pending {
  files: number;
  bytes: number;
}

/** Where a word of the query is; older daemons count chunks only. */
export interface Word {
  word: string;
  chunks: number;
  forms?: number;
  headings?: number;
}

/** Words for a time at the end of a question, and what became of them. */
export interface TimeFilter {
  words: string;
  days: string;
  effect: "acts" | "nothing" | "words";
}

export interface Found {
  resultCount: number;
  total?: number;
  totalExact?: boolean;
  nextOffset?: number | null;
  results: Hit[];
  words: Word[];
  corrected: Record<string, string>;
  dropped: string[];
  weak: boolean;
  filteredOut: number;
  pending: Pending;
  warnings: string[];
  timeFilter?: TimeFilter | null;
}

export interface Listed {
  total: number;
  sessions: Session[];
  nextOffset: number | null;
  warnings?: string[];
}

export interface Message {
  msgIdx: number;
  role: string;
  kind: "message" | "tool_call";
  toolName: string | null;
  isError: boolean | null;
  timestamp: string | null;
  entryId?: string | null;
  text: string;
  truncated: boolean;
  undone?: boolean;
}

export interface Page {
  sessionId: string;
  total: number;
  nextOffset: number | null;
  messages: Message[];
}

/** What a model wrote of a session, and when it was asked. */
export interface Generated {
  at: string;
  upTo: number | null;
}

export interface Meta extends Session {
  agent: string | null;
  toolCounts: Record<string, number>;
  generated?: Generated | null;
  resume?: { command: string[]; cwd: string | null } | null;
  resumeProblem?: { code: string; message: string } | null;
}
