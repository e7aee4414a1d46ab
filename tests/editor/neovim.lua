-- Neovim as a real client of necropsy-lsp; run by neovim.sh in a project with a stored report:
-- nvim --headless -u NONE -i NONE -n -l neovim.lua EDITORS.MD
-- The set-up is the one of docs/editors.md, word for word. Any failure ends with exit status 1.

local WAIT = 60000 -- far above any answer: a server that says nothing fails the test instead of hanging it
local BREAK, GRADIENT = 6, 15 -- lines of the two findings in train.py, from 0
local done = 0

local function check(what, ok, seen)
  if not ok then
    error(what .. "; seen: " .. vim.inspect(seen), 0)
  end
  done = done + 1
  io.stdout:write("ok " .. what .. "\n")
end

local function eventually(what, condition, seen)
  check(what, vim.wait(WAIT, condition, 20), seen and seen())
end

local function documented(page)
  local text = table.concat(vim.fn.readfile(page), "\n")
  local code = text:match("<!%-%- neovim %-%->\n```lua\n(.-)\n```")
  check("docs/editors.md has the set-up", code ~= nil, page)
  return code
end

local function found(buffer)
  local all = vim.diagnostic.get(buffer)
  table.sort(all, function(a, b) return a.lnum < b.lnum end)
  return all
end

local function places(buffer)
  return table.concat(vim.tbl_map(function(d) return d.code .. "@" .. d.lnum end, found(buffer)), " ")
end

local function stand(what, buffer, wanted)
  eventually(what, function() return places(buffer) == wanted end, function() return found(buffer) end)
end

local function ask(client, method, params)
  local answer, failure = client:request_sync(method, params, WAIT, 0)
  check(method .. " is answered", answer and not answer.err, failure or (answer and answer.err))
  return answer.result
end

local function act(line, title)
  vim.api.nvim_win_set_cursor(0, { line + 1, 8 })
  vim.lsp.buf.code_action({ apply = true, filter = function(action) return action.title == title end })
end

local function line_is(number, wanted)
  return function() return vim.api.nvim_buf_get_lines(0, number, number + 1, false)[1] == wanted end
end

local function script(client, buffer)
  stand("both findings stand on their lines", buffer, "CMP003@" .. BREAK .. " CMP020@" .. GRADIENT)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local last = found(buffer)[2]
  check("a line with a character outside the BMP is marked to its end", last.end_col == #lines[GRADIENT + 1], last)
  check("the worst is an error", last.severity == vim.diagnostic.severity.ERROR, last)

  local at = { textDocument = { uri = vim.uri_from_bufnr(buffer) }, position = { line = GRADIENT, character = 9 } }
  local hover = ask(client, "textDocument/hover", at).contents
  check("hover is Markdown", hover.kind == "markdown", hover)
  check("hover quotes the log", hover.value:find("overwritten by a subsequent run", 1, true), hover.value)
  check("hover holds the rule's page", hover.value:find("**How to fix**", 1, true), hover.value)
  local lenses = ask(client, "textDocument/codeLens", { textDocument = at.textDocument })
  check("a lens above each function", #lenses == 2 and lenses[1].range.start.line == BREAK - 1, lenses)
  check("it counts graph breaks", lenses[1].command.title:find("1 graph break", 1, true), lenses)
  local whole = { start = { line = 0, character = 0 }, ["end"] = { line = #lines, character = 0 } }
  ask(client, "textDocument/inlayHint", { textDocument = at.textDocument, range = whole })

  vim.api.nvim_buf_set_lines(buffer, 0, 0, false, { "# one", "# two", "# three" })
  stand("three lines on top move them by three", buffer, "CMP003@" .. BREAK + 3 .. " CMP020@" .. GRADIENT + 3)
  vim.cmd("silent undo")
  stand("and back", buffer, "CMP003@" .. BREAK .. " CMP020@" .. GRADIENT)

  vim.api.nvim_buf_set_lines(buffer, BREAK, BREAK + 1, false, { "    top = float(tokens.amax())" })
  eventually("an edited line is stale", function()
    local first = found(buffer)[1]
    return first and first.lnum == BREAK and first.message:find("changed since the run", 1, true) ~= nil
  end, function() return found(buffer) end)
  check("and says what the run saw", found(buffer)[1].message:find("tokens.max()", 1, true), found(buffer)[1])
  vim.cmd("silent undo")
  eventually("undone, it holds again", function()
    return not found(buffer)[1].message:find("changed since the run", 1, true)
  end)

  act(GRADIENT, "Add set_to_none=True (CMP020)")
  local fixed = lines[GRADIENT + 1]:gsub("set_to_none=False", "set_to_none=True")
  eventually("the fix changes the keyword", line_is(GRADIENT, fixed), function() return vim.fn.getline(GRADIENT + 1) end)
  act(BREAK, "Suppress CMP003 here")
  local silent = lines[BREAK + 1] .. "  # necropsy: ignore[CMP003]"
  eventually("a comment suppresses", line_is(BREAK, silent), function() return vim.fn.getline(BREAK + 1) end)
  stand("and is honoured", buffer, "CMP020@" .. GRADIENT)

  vim.cmd("silent write")
  act(GRADIENT, "Explain CMP020")
  eventually("the rule's page opens", function() return vim.api.nvim_buf_get_name(0):find("CMP020.md", 1, true) ~= nil end)
  vim.cmd("buffer " .. buffer)
end

local function log(buffer)
  act(GRADIENT, "Open run.log:41")
  eventually("the evidence opens", function() return vim.fn.expand("%:t") == "run.log" and vim.fn.line(".") == 41 end,
    function() return { vim.fn.expand("%"), vim.fn.line(".") } end)
  eventually("an open log has its findings", function() return #found(0) == 2 end, function() return found(0) end)
  vim.cmd("buffer " .. buffer)
end

local function rerun(buffer)
  for name in vim.fs.dir(".necropsy") do
    os.remove(".necropsy/" .. name)
  end
  vim.api.nvim_buf_set_lines(buffer, -1, -1, false, { "# fixed" })
  vim.cmd("bwipeout! run.log")
  vim.cmd("silent write")
  stand("without the report nothing is left", buffer, "")
end

local function main()
  vim.cmd("filetype on")
  assert(loadstring(documented(arg[1])))()
  vim.cmd("edit train.py")
  local buffer = vim.api.nvim_get_current_buf()
  local clients = {}
  eventually("the set-up starts the server", function()
    clients = vim.lsp.get_clients({ bufnr = buffer })
    return #clients == 1
  end, function() return { vim.bo.filetype, vim.o.runtimepath } end)
  script(clients[1], buffer)
  log(buffer)
  rerun(buffer)
  clients[1]:stop()
  eventually("the server ends", function() return clients[1]:is_stopped() end)
  io.stdout:write(done .. " checks in Neovim " .. tostring(vim.version()) .. "\n")
end

local ok, failure = pcall(main)
if not ok then
  io.stderr:write("FAILED " .. tostring(failure) .. "\n")
  local file = vim.fn.stdpath("state") .. "/lsp.log"
  local trace = vim.fn.filereadable(file) == 1 and vim.fn.readfile(file) or {}
  io.stderr:write(table.concat(vim.list_slice(trace, math.max(#trace - 30, 1)), "\n") .. "\n")
end
os.exit(ok and 0 or 1)
