// Loaded by every page: keeps it fresh, counts down, writes times and amounts as the reader wants them, shows the wallet.
import "./live.js";
import "./exact.js";
import "./times.js"; // after live.js, which remembers what the server wrote
import { start } from "./wallet.js";

start();
