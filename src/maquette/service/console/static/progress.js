// The progress of a release while it is made: a bar and words, from the server's events.

import * as api from "./api.js";
import { announce, h, replace } from "./dom.js";
import { sentence } from "./numbers.js";

export const WAYS = [["1", "single columns"], ["2", "pairs of columns"], ["3", "triples of columns"]];

export function progressing() {
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Progress of the release" });
  const words = h("p", { role: "status" });
  bar.hidden = true;
  const follow = async (job) => {
    bar.hidden = false;
    for await (const event of api.progress(job)) {
      if (event.share === undefined) bar.removeAttribute("value");
      else bar.value = event.share;
      words.textContent = sentence(event.words);
      if (event.failed) throw event.failed;
    }
    bar.hidden = true;
    words.textContent = "The release is ready.";
    announce(words.textContent);
  };
  const reset = () => replace(words); // what is said of the last release is not said of the next
  return { element: h("div", {}, bar, words), follow, reset };
}
