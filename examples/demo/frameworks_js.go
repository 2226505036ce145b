package main

// frameworks are only net/http here: the others would be the larger part of the program.
var frameworks = []framework{{"http", httpApp}}
