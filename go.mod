module github.com/tailbox/tailbox

go 1.26
