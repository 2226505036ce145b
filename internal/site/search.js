// The search: in the reader's browser, in an index that the build made.
const form = document.querySelector(".search"), input = document.querySelector("#search"), list = document.querySelector("#found"), says = document.querySelector("#found-says");
const most = 12;
let sections, chosen = -1;

// load gets the index, once, when somebody turns to the search.
const load = () => sections ??= fetch(new URL("search.json", import.meta.url)).then(r => r.json());
