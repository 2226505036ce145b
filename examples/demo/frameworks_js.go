package main

// through is what the page says of them.
const through = throughInPage

// frameworks are net/http alone: the others would be most of the program.
var frameworks = []framework{{"http", httpApp}}
