// An address that no page has.
import { notFound } from "./shell.js";

export const title = () => "Not found";
export const view = () => notFound();
