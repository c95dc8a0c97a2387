// Every page: keeps it fresh, counts down, and shows the wallet.
import "./live.js";
import { start } from "./wallet.js";

start();
