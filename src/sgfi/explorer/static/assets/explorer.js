var he, k, Ze, B, Ae, et, tt, me, re, V, nt, Se, we, ke, rt, ae = {}, ce = [], kt = /acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i, pe = Array.isArray;
function R(t, e) {
  for (var n in e) t[n] = e[n];
  return t;
}
function Te(t) {
  t && t.parentNode && t.parentNode.removeChild(t);
}
function xt(t, e, n) {
  var s, o, i, c = {};
  for (i in e) i == "key" ? s = e[i] : i == "ref" ? o = e[i] : c[i] = e[i];
  if (arguments.length > 2 && (c.children = arguments.length > 3 ? he.call(arguments, 2) : n), typeof t == "function" && t.defaultProps != null) for (i in t.defaultProps) c[i] === void 0 && (c[i] = t.defaultProps[i]);
  return ie(t, c, s, o, null);
}
function ie(t, e, n, s, o) {
  var i = { type: t, props: e, key: n, ref: s, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: o ?? ++Ze, __i: -1, __u: 0 };
  return o == null && k.vnode != null && k.vnode(i), i;
}
function j(t) {
  return t.children;
}
function se(t, e) {
  this.props = t, this.context = e;
}
function W(t, e) {
  if (e == null) return t.__ ? W(t.__, t.__i + 1) : null;
  for (var n; e < t.__k.length; e++) if ((n = t.__k[e]) != null && n.__e != null) return n.__e;
  return typeof t.type == "function" ? W(t) : null;
}
function $t(t) {
  if (t.__P && t.__d) {
    var e = t.__v, n = e.__e, s = [], o = [], i = R({}, e);
    i.__v = e.__v + 1, k.vnode && k.vnode(i), Me(t.__P, i, e, t.__n, t.__P.namespaceURI, 32 & e.__u ? [n] : null, s, n ?? W(e), !!(32 & e.__u), o), i.__v = e.__v, i.__.__k[i.__i] = i, at(s, i, o), e.__e = e.__ = null, i.__e != n && it(i);
  }
}
function it(t) {
  if ((t = t.__) != null && t.__c != null) return t.__e = t.__c.base = null, t.__k.some(function(e) {
    if (e != null && e.__e != null) return t.__e = t.__c.base = e.__e;
  }), it(t);
}
function xe(t) {
  (!t.__d && (t.__d = !0) && B.push(t) && !de.__r++ || Ae != k.debounceRendering) && ((Ae = k.debounceRendering) || et)(de);
}
function de() {
  try {
    for (var t, e = 1; B.length; ) B.length > e && B.sort(tt), t = B.shift(), e = B.length, $t(t);
  } finally {
    B.length = de.__r = 0;
  }
}
function st(t, e, n, s, o, i, c, d, u, a, h) {
  var f, l, p, g, y, v, b = s && s.__k || ce, _ = e.length;
  for (u = qt(n, e, b, u, _), f = 0; f < _; f++) (p = n.__k[f]) != null && (l = p.__i != -1 && b[p.__i] || ae, p.__i = f, v = Me(t, p, l, o, i, c, d, u, a, h), g = p.__e, p.ref && l.ref != p.ref && (l.ref && Pe(l.ref, null, p), h.push(p.ref, p.__c || g, p)), y == null && g != null && (y = g), 4 & p.__u ? (u = ot(p, u, t), l.__e && (l.__e = null)) : typeof p.type == "function" && v !== void 0 ? u = v : g && (u = g.nextSibling), p.__u &= -7);
  return n.__e = y, u;
}
function qt(t, e, n, s, o) {
  var i, c, d, u, a, h = n.length, f = h, l = 0;
  for (t.__k = new Array(o), i = 0; i < o; i++) (c = e[i]) != null && typeof c != "boolean" && typeof c != "function" ? (typeof c == "string" || typeof c == "number" || typeof c == "bigint" || c.constructor == String ? c = t.__k[i] = ie(null, c, null, null, null) : pe(c) ? c = t.__k[i] = ie(j, { children: c }, null, null, null) : c.constructor === void 0 && c.__b > 0 ? c = t.__k[i] = ie(c.type, c.props, c.key, c.ref ? c.ref : null, c.__v) : t.__k[i] = c, u = i + l, c.__ = t, c.__b = t.__b + 1, d = null, (a = c.__i = Ct(c, n, u, f)) != -1 && (f--, (d = n[a]) && (d.__u |= 2)), d == null || d.__v == null ? (a == -1 && (o > h ? l-- : o < h && l++), typeof c.type != "function" && (c.__u |= 4)) : a != u && (a == u - 1 ? l-- : a == u + 1 ? l++ : (a > u ? l-- : l++, c.__u |= 4))) : t.__k[i] = null;
  if (f) for (i = 0; i < h; i++) (d = n[i]) != null && (2 & d.__u) == 0 && (d.__e == s && (s = W(d)), dt(d, d));
  return s;
}
function ot(t, e, n) {
  var s, o;
  if (typeof t.type == "function") {
    for (s = t.__k, o = 0; s && o < s.length; o++) s[o] && (s[o].__ = t, e = ot(s[o], e, n));
    return e;
  }
  t.__e != e && (e && t.type && !e.parentNode && (e = W(t)), e = n.insertBefore(t.__e, e || null));
  do
    e = e && e.nextSibling;
  while (e != null && e.nodeType == 8);
  return e;
}
function Ct(t, e, n, s) {
  var o, i, c, d = t.key, u = t.type, a = e[n], h = a != null && (2 & a.__u) == 0;
  if (a === null && d == null || h && d == a.key && u == a.type) return n;
  if (s > (h ? 1 : 0)) {
    for (o = n - 1, i = n + 1; o >= 0 || i < e.length; ) if ((a = e[c = o >= 0 ? o-- : i++]) != null && (2 & a.__u) == 0 && d == a.key && u == a.type) return c;
  }
  return -1;
}
function Ne(t, e, n) {
  e[0] == "-" ? t.setProperty(e, n ?? "") : t[e] = n == null ? "" : typeof n != "number" || kt.test(e) ? n : n + "px";
}
function te(t, e, n, s, o) {
  var i, c;
  e: if (e == "style") if (typeof n == "string") t.style.cssText = n;
  else {
    if (typeof s == "string" && (t.style.cssText = s = ""), s) for (e in s) n && e in n || Ne(t.style, e, "");
    if (n) for (e in n) s && n[e] == s[e] || Ne(t.style, e, n[e]);
  }
  else if (e[0] == "o" && e[1] == "n") i = e != (e = e.replace(nt, "$1")), c = e.toLowerCase(), e = c in t || e == "onFocusOut" || e == "onFocusIn" ? c.slice(2) : e.slice(2), t.l || (t.l = {}), t.l[e + i] = n, n ? s ? n[V] = s[V] : (n[V] = Se, t.addEventListener(e, i ? ke : we, i)) : t.removeEventListener(e, i ? ke : we, i);
  else {
    if (o == "http://www.w3.org/2000/svg") e = e.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if (e != "width" && e != "height" && e != "href" && e != "list" && e != "form" && e != "tabIndex" && e != "download" && e != "rowSpan" && e != "colSpan" && e != "role" && e != "popover" && e in t) try {
      t[e] = n ?? "";
      break e;
    } catch {
    }
    typeof n == "function" || (n == null || n === !1 && e[4] != "-" ? t.removeAttribute(e) : t.setAttribute(e, e == "popover" && n == 1 ? "" : n));
  }
}
function Oe(t) {
  return function(e) {
    if (this.l) {
      var n = this.l[e.type + t];
      if (e[re] == null) e[re] = Se++;
      else if (e[re] < n[V]) return;
      return n(k.event ? k.event(e) : e);
    }
  };
}
function Me(t, e, n, s, o, i, c, d, u, a) {
  var h, f, l, p, g, y, v, b, _, m, x, N, P, L, T, w, M = e.type;
  if (e.constructor !== void 0) return null;
  128 & n.__u && (u = !!(32 & n.__u), i = [d = e.__e = n.__e]), (h = k.__b) && h(e);
  e: if (typeof M == "function") {
    f = c.length;
    try {
      if (_ = e.props, m = M.prototype && M.prototype.render, x = (h = M.contextType) && s[h.__c], N = h ? x ? x.props.value : h.__ : s, n.__c ? b = (l = e.__c = n.__c).__ = l.__E : (m ? e.__c = l = new M(_, N) : (e.__c = l = new se(_, N), l.constructor = M, l.render = Tt), x && x.sub(l), l.state || (l.state = {}), l.__n = s, p = l.__d = !0, l.__h = [], l._sb = []), m && l.__s == null && (l.__s = l.state), m && M.getDerivedStateFromProps != null && (l.__s == l.state && (l.__s = R({}, l.__s)), R(l.__s, M.getDerivedStateFromProps(_, l.__s))), g = l.props, y = l.state, l.__v = e, p) m && M.getDerivedStateFromProps == null && l.componentWillMount != null && l.componentWillMount(), m && l.componentDidMount != null && l.__h.push(l.componentDidMount);
      else {
        if (m && M.getDerivedStateFromProps == null && _ !== g && l.componentWillReceiveProps != null && l.componentWillReceiveProps(_, N), e.__v == n.__v || !l.__e && l.shouldComponentUpdate != null && l.shouldComponentUpdate(_, l.__s, N) === !1) {
          e.__v != n.__v && (l.props = _, l.state = l.__s, l.__d = !1), e.__e = n.__e, e.__k = n.__k, e.__k.some(function(I) {
            I && (I.__ = e);
          }), ce.push.apply(l.__h, l._sb), l._sb = [], l.__h.length && c.push(l), d = W(n);
          break e;
        }
        l.componentWillUpdate != null && l.componentWillUpdate(_, l.__s, N), m && l.componentDidUpdate != null && l.__h.push(function() {
          l.componentDidUpdate(g, y, v);
        });
      }
      if (l.context = N, l.props = _, l.__P = t, l.__e = !1, P = k.__r, L = 0, m) l.state = l.__s, l.__d = !1, P && P(e), h = l.render(l.props, l.state, l.context), ce.push.apply(l.__h, l._sb), l._sb = [];
      else do
        l.__d = !1, P && P(e), h = l.render(l.props, l.state, l.context), l.state = l.__s;
      while (l.__d && ++L < 25);
      l.state = l.__s, l.getChildContext != null && (s = R(R({}, s), l.getChildContext())), m && !p && l.getSnapshotBeforeUpdate != null && (v = l.getSnapshotBeforeUpdate(g, y)), T = h != null && h.type === j && h.key == null ? ct(h.props.children) : h, d = st(t, pe(T) ? T : [T], e, n, s, o, i, c, d, u, a), l.base = e.__e, e.__u &= -161, l.__h.length && c.push(l), b && (l.__E = l.__ = null);
    } catch (I) {
      if (c.length = f, e.__v = null, u || i != null) {
        if (I.then) {
          for (e.__u |= u ? 160 : 128; d && d.nodeType == 8 && d.nextSibling; ) d = d.nextSibling;
          i != null && (i[i.indexOf(d)] = null), e.__e = d;
        } else if (i != null) for (w = i.length; w--; ) Te(i[w]);
      } else e.__e = n.__e;
      e.__k == null && (e.__k = n.__k || []), I.then || lt(e), k.__e(I, e, n);
    }
  } else i == null && e.__v == n.__v ? (e.__k = n.__k, e.__e = n.__e) : d = e.__e = St(n.__e, e, n, s, o, i, c, u, a);
  return (h = k.diffed) && h(e), 128 & e.__u ? void 0 : d;
}
function lt(t) {
  t && (t.__c && (t.__c.__e = !0), t.__k && t.__k.some(lt));
}
function at(t, e, n) {
  for (var s = 0; s < n.length; s++) Pe(n[s], n[++s], n[++s]);
  k.__c && k.__c(e, t), t.some(function(o) {
    try {
      t = o.__h, o.__h = [], t.some(function(i) {
        i.call(o);
      });
    } catch (i) {
      k.__e(i, o.__v);
    }
  });
}
function ct(t) {
  return typeof t != "object" || t == null || t.__b > 0 ? t : pe(t) ? t.map(ct) : t.constructor !== void 0 ? null : R({}, t);
}
function St(t, e, n, s, o, i, c, d, u) {
  var a, h, f, l, p, g, y, v = n.props || ae, b = e.props, _ = e.type;
  if (_ == "svg" ? o = "http://www.w3.org/2000/svg" : _ == "math" ? o = "http://www.w3.org/1998/Math/MathML" : o || (o = "http://www.w3.org/1999/xhtml"), i != null) {
    for (a = 0; a < i.length; a++) if ((p = i[a]) && "setAttribute" in p == !!_ && (_ ? p.localName == _ : p.nodeType == 3)) {
      t = p, i[a] = null;
      break;
    }
  }
  if (t == null) {
    if (_ == null) return document.createTextNode(b);
    t = document.createElementNS(o, _, b.is && b), d && (k.__m && k.__m(e, i), d = !1), i = null;
  }
  if (_ == null) v === b || d && t.data == b || (t.data = b);
  else {
    if (i = _ == "textarea" && b.defaultValue != null ? null : i && he.call(t.childNodes), !d && i != null) for (v = {}, a = 0; a < t.attributes.length; a++) v[(p = t.attributes[a]).name] = p.value;
    for (a in v) p = v[a], a == "dangerouslySetInnerHTML" ? f = p : a == "children" || a in b || a == "value" && "defaultValue" in b || a == "checked" && "defaultChecked" in b || te(t, a, null, p, o);
    for (a in b) p = b[a], a == "children" ? l = p : a == "dangerouslySetInnerHTML" ? h = p : a == "value" ? g = p : a == "checked" ? y = p : d && typeof p != "function" || v[a] === p || te(t, a, p, v[a], o);
    if (h) d || f && (h.__html == f.__html || h.__html == t.innerHTML) || (t.innerHTML = h.__html), e.__k = [];
    else if (f && (t.innerHTML = ""), st(e.type == "template" ? t.content : t, pe(l) ? l : [l], e, n, s, _ == "foreignObject" ? "http://www.w3.org/1999/xhtml" : o, i, c, i ? i[0] : n.__k && W(n, 0), d, u), i != null) for (a = i.length; a--; ) Te(i[a]);
    d && _ != "textarea" || (a = "value", _ == "progress" && g == null ? t.removeAttribute("value") : g != null && (g !== t[a] || _ == "progress" && !g || _ == "option" && g != v[a]) && te(t, a, g, v[a], o), a = "checked", y != null && y != t[a] && te(t, a, y, v[a], o));
  }
  return t;
}
function Pe(t, e, n) {
  try {
    if (typeof t == "function") {
      var s = typeof t.__u == "function";
      s && t.__u(), s && e == null || (t.__u = t(e));
    } else t.current = e;
  } catch (o) {
    k.__e(o, n);
  }
}
function dt(t, e, n) {
  var s, o;
  if (k.unmount && k.unmount(t), (s = t.ref) && (s.current && s.current != t.__e || Pe(s, null, e)), (s = t.__c) != null) {
    if (s.componentWillUnmount) try {
      s.componentWillUnmount();
    } catch (i) {
      k.__e(i, e);
    }
    s.base = s.__P = s.__n = null;
  }
  if (s = t.__k) for (o = 0; o < s.length; o++) s[o] && dt(s[o], e, n || typeof t.type != "function");
  n || Te(t.__e), t.__c = t.__ = t.__e = void 0;
}
function Tt(t, e, n) {
  return this.constructor(t, n);
}
function $e(t, e, n) {
  var s, o, i, c;
  e == document && (e = document.documentElement), k.__ && k.__(t, e), o = (s = !1) ? null : e.__k, i = [], c = [], Me(e, t = e.__k = xt(j, null, [t]), o || ae, ae, e.namespaceURI, o ? null : e.firstChild ? he.call(e.childNodes) : null, i, o ? o.__e : e.firstChild, s, c), at(i, t, c), t.props.children = null;
}
function Mt(t) {
  function e(n) {
    var s, o;
    return this.getChildContext || (s = /* @__PURE__ */ new Set(), (o = {})[e.__c] = this, this.getChildContext = function() {
      return o;
    }, this.componentWillUnmount = function() {
      s = null;
    }, this.shouldComponentUpdate = function(i) {
      this.props.value != i.value && s.forEach(function(c) {
        c.__e = !0, xe(c);
      });
    }, this.sub = function(i) {
      s.add(i);
      var c = i.componentWillUnmount;
      i.componentWillUnmount = function() {
        s && s.delete(i), c && c.call(i);
      };
    }), n.children;
  }
  return e.__c = "__cC" + rt++, e.__ = t, e.Provider = e.__l = (e.Consumer = function(n, s) {
    return n.children(s);
  }).contextType = e, e;
}
he = ce.slice, k = { __e: function(t, e, n, s) {
  for (var o, i, c; e = e.__; ) if ((o = e.__c) && !o.__) try {
    if ((i = o.constructor) && i.getDerivedStateFromError != null && (o.setState(i.getDerivedStateFromError(t)), c = o.__d), o.componentDidCatch != null && (o.componentDidCatch(t, s || {}), c = o.__d), c) return o.__E = o;
  } catch (d) {
    t = d;
  }
  throw t;
} }, Ze = 0, se.prototype.setState = function(t, e) {
  var n;
  n = this.__s != null && this.__s != this.state ? this.__s : this.__s = R({}, this.state), typeof t == "function" && (t = t(R({}, n), this.props)), t && R(n, t), t != null && this.__v && (e && this._sb.push(e), xe(this));
}, se.prototype.forceUpdate = function(t) {
  this.__v && (this.__e = !0, t && this.__h.push(t), xe(this));
}, se.prototype.render = j, B = [], et = typeof Promise == "function" ? Promise.prototype.then.bind(Promise.resolve()) : setTimeout, tt = function(t, e) {
  return t.__v.__b - e.__v.__b;
}, de.__r = 0, me = Math.random().toString(8), re = "__d" + me, V = "__a" + me, nt = /(PointerCapture)$|Capture$/i, Se = 0, we = Oe(!1), ke = Oe(!0), rt = 0;
var Pt = 0;
function r(t, e, n, s, o, i) {
  e || (e = {});
  var c, d, u = e;
  if ("ref" in u) for (d in u = {}, e) d == "ref" ? c = e[d] : u[d] = e[d];
  var a = { type: t, props: u, key: n, ref: c, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: --Pt, __i: -1, __u: 0, __source: o, __self: i };
  if (typeof t == "function" && (c = t.defaultProps)) for (d in c) u[d] === void 0 && (u[d] = c[d]);
  return k.vnode && k.vnode(a), a;
}
var G, $, ge, Ee, Y = 0, ut = [], S = k, Le = S.__b, Re = S.__r, je = S.diffed, Ue = S.__c, De = S.unmount, Ie = S.__;
function _e(t, e) {
  S.__h && S.__h($, t, Y || e), Y = 0;
  var n = $.__H || ($.__H = { __: [], __h: [] });
  return t >= n.__.length && n.__.push({}), n.__[t];
}
function q(t) {
  return Y = 1, At(pt, t);
}
function At(t, e, n) {
  var s = _e(G++, 2);
  if (s.t = t, !s.__c && (s.__ = [pt(void 0, e), function(d) {
    var u = s.__N ? s.__N[0] : s.__[0], a = s.t(u, d);
    u !== a && (s.__N = [a, s.__[1]], s.__c.setState({}));
  }], s.__c = $, !$.__f)) {
    var o = function(d, u, a) {
      if (!s.__c.__H) return !0;
      var h = !1, f = s.__c.props !== d;
      if (s.__c.__H.__.some(function(p) {
        if (p.__N) {
          h = !0;
          var g = p.__[0];
          p.__ = p.__N, p.__N = void 0, g !== p.__[0] && (f = !0);
        }
      }), i) {
        var l = i.call(this, d, u, a);
        return h ? l || f : l;
      }
      return !h || f;
    };
    $.__f = !0;
    var i = $.shouldComponentUpdate, c = $.componentWillUpdate;
    $.componentWillUpdate = function(d, u, a) {
      if (this.__e) {
        var h = i;
        i = void 0, o(d, u, a), i = h;
      }
      c && c.call(this, d, u, a);
    }, $.shouldComponentUpdate = o;
  }
  return s.__N || s.__;
}
function O(t, e) {
  var n = _e(G++, 3);
  !S.__s && ht(n.__H, e) && (n.__ = t, n.u = e, $.__H.__h.push(n));
}
function fe(t) {
  return Y = 5, Z(function() {
    return { current: t };
  }, []);
}
function Z(t, e) {
  var n = _e(G++, 7);
  return ht(n.__H, e) && (n.__ = t(), n.__H = e, n.__h = t), n.__;
}
function He(t, e) {
  return Y = 8, Z(function() {
    return t;
  }, e);
}
function Nt(t) {
  var e = $.context[t.__c], n = _e(G++, 9);
  return n.c = t, e ? (n.__ == null && (n.__ = !0, e.sub($)), e.props.value) : t.__;
}
function Ot() {
  for (var t; t = ut.shift(); ) {
    var e = t.__H;
    if (t.__P && e) try {
      e.__h.some(oe), e.__h.some(qe), e.__h = [];
    } catch (n) {
      e.__h = [], S.__e(n, t.__v);
    }
  }
}
S.__b = function(t) {
  $ = null, Le && Le(t);
}, S.__ = function(t, e) {
  t && e.__k && e.__k.__m && (t.__m = e.__k.__m), Ie && Ie(t, e);
}, S.__r = function(t) {
  Re && Re(t), G = 0;
  var e = ($ = t.__c).__H;
  e && (ge === $ ? (e.__h = [], $.__h = [], e.__.some(function(n) {
    n.__N && (n.__ = n.__N), n.u = n.__N = void 0;
  })) : (e.__h.some(oe), e.__h.some(qe), e.__h = [], G = 0)), ge = $;
}, S.diffed = function(t) {
  je && je(t);
  var e = t.__c;
  e && e.__H && (e.__H.__h.length && (ut.push(e) !== 1 && Ee === S.requestAnimationFrame || ((Ee = S.requestAnimationFrame) || Et)(Ot)), e.__H.__.some(function(n) {
    n.u && (n.__H = n.u, n.u = void 0);
  })), ge = $ = null;
}, S.__c = function(t, e) {
  e.some(function(n) {
    try {
      n.__h.some(oe), n.__h = n.__h.filter(function(s) {
        return !s.__ || qe(s);
      });
    } catch (s) {
      e.some(function(o) {
        o.__h && (o.__h = []);
      }), e = [], S.__e(s, n.__v);
    }
  }), Ue && Ue(t, e);
}, S.unmount = function(t) {
  De && De(t);
  var e, n = t.__c;
  n && n.__H && (n.__H.__.some(function(s) {
    try {
      oe(s);
    } catch (o) {
      e = o;
    }
  }), n.__H = void 0, e && S.__e(e, n.__v));
};
var Be = typeof requestAnimationFrame == "function";
function Et(t) {
  var e, n = function() {
    clearTimeout(s), Be && cancelAnimationFrame(e), setTimeout(t);
  }, s = setTimeout(n, 35);
  Be && (e = requestAnimationFrame(n));
}
function oe(t) {
  var e = $, n = t.__c;
  typeof n == "function" && (t.__c = void 0, n()), $ = e;
}
function qe(t) {
  var e = $;
  t.__c = t.__(), $ = e;
}
function ht(t, e) {
  return !t || t.length !== e.length || e.some(function(n, s) {
    return n !== t[s];
  });
}
function pt(t, e) {
  return typeof e == "function" ? e(t) : e;
}
class Q extends Error {
  constructor(e) {
    super(`expected ${e.expected}; got ${e.got}. ${e.todo}`), this.problem = e;
  }
}
const Fe = { expected: "the server to answer", got: "no connection", todo: "Is sgfi explore still running? Reload when it is." };
class Lt {
  constructor(e) {
    this.token = e, this.page = !0, this.socket = null, this.waiting = /* @__PURE__ */ new Map(), this.next = 1, this.tries = 0;
  }
  async bytes(e, n) {
    let s;
    try {
      s = await fetch(e, { headers: { authorization: `Bearer ${this.token}` }, signal: n });
    } catch (o) {
      throw n?.aborted ? o : new Q(Fe);
    }
    if (!s.ok) throw new Q(await We(s));
    return { body: await s.arrayBuffer(), type: s.headers.get("content-type") ?? "" };
  }
  async upload(e, n) {
    const s = await fetch(`/api/inputs?name=${encodeURIComponent(n)}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": e.type || "application/octet-stream" },
      body: e
    });
    if (!s.ok) throw new Q(await We(s));
    return await s.json();
  }
  live(e, n) {
    const s = this.next++, o = JSON.stringify({ id: s, ask: e });
    this.waiting.set(s, { text: o, heard: n });
    const i = this.connected();
    return i.readyState === WebSocket.OPEN && i.send(o), () => {
      this.waiting.delete(s) && this.socket?.readyState === WebSocket.OPEN && this.socket.send(JSON.stringify({ id: s, cancel: !0 }));
    };
  }
  connected() {
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return this.socket;
    const e = new WebSocket(`ws://${location.host}/live?token=${encodeURIComponent(this.token)}`);
    return this.socket = e, e.onopen = () => {
      this.tries = 0;
      for (const { text: n } of this.waiting.values()) e.send(n);
    }, e.onmessage = (n) => {
      const s = JSON.parse(n.data);
      this.waiting.get(s.id)?.heard(s);
    }, e.onclose = () => {
      if (this.socket === e && (this.socket = null, !!this.waiting.size))
        if (this.tries++ < 5) setTimeout(() => this.waiting.size && this.connected(), 400 * this.tries);
        else for (const [n, { heard: s }] of this.waiting) s({ id: n, state: "failed", error: Fe });
    }, e;
  }
}
async function We(t) {
  try {
    return (await t.json()).error;
  } catch {
    return { expected: "an answer", got: `status ${t.status}`, todo: "Reload the page." };
  }
}
class Rt {
  constructor(e) {
    this.model = e, this.page = !1, this.next = 1, this.replies = /* @__PURE__ */ new Map(), this.events = /* @__PURE__ */ new Map(), this.heard = (n, s) => {
      n.reply !== void 0 ? (this.replies.get(n.reply)?.(n, s), this.replies.delete(n.reply)) : n.live && this.events.get(n.live.id)?.(n.live);
    }, e.on("msg:custom", this.heard);
  }
  close() {
    this.model.off("msg:custom", this.heard);
  }
  request(e, n = []) {
    const s = this.next++;
    return new Promise((o, i) => {
      this.replies.set(s, (c, d) => {
        const u = d[0], a = u ? u.buffer.slice(u.byteOffset, u.byteOffset + u.byteLength) : new ArrayBuffer(0);
        c.status < 400 ? o({ body: a, type: c.type }) : i(new Q(JSON.parse(new TextDecoder().decode(a)).error));
      }), this.model.send({ request: s, ...e }, void 0, n);
    });
  }
  bytes(e) {
    return this.request({ path: e });
  }
  async upload(e, n) {
    const { body: s } = await this.request({ upload: n, kind: e.type.startsWith("text/plain") ? "text" : "picture" }, [await e.arrayBuffer()]);
    return JSON.parse(new TextDecoder().decode(s));
  }
  live(e, n) {
    const s = this.next++;
    return this.events.set(s, n), this.model.send({ live: { id: s, ask: e } }), () => {
      this.events.delete(s) && this.model.send({ live: { id: s, cancel: !0 } });
    };
  }
}
async function Ce(t, e, n) {
  const { body: s } = await t.bytes(e, n);
  return JSON.parse(new TextDecoder().decode(s));
}
const _t = Mt(null), C = () => Nt(_t), ze = {};
function ee(t) {
  const { transport: e } = C(), [n, s] = q({ key: "", stages: ze }), o = t ? JSON.stringify(t) : "";
  return O(() => {
    if (t)
      return e.live(t, (i) => {
        const c = i.stage ? [i.stage] : t.stages;
        s((d) => {
          const u = d.key === o ? { ...d.stages } : {};
          for (const a of c)
            u[a] = { state: i.state, steps: i.steps ?? u[a]?.steps ?? 0, facts: i.facts, error: i.error };
          return { key: o, stages: u };
        });
      });
  }, [o, e]), n.key === o ? n.stages : ze;
}
function U(t) {
  const { transport: e } = C(), [n, s] = q({ path: null });
  return O(() => {
    if (!t) return;
    const o = new AbortController();
    return Ce(e, t, o.signal).then(
      (i) => !o.signal.aborted && s({ path: t, data: i }),
      (i) => !o.signal.aborted && s({ path: t, problem: K(i) })
    ), () => o.abort();
  }, [t, e]), n.path === t ? n : {};
}
function K(t) {
  return t instanceof Q ? t.problem : { expected: "an answer", got: String(t), todo: "Reload the page." };
}
const J = /* @__PURE__ */ new Map();
async function jt(t, e, n) {
  const s = J.get(e);
  if (s) return s;
  const { body: o, type: i } = await t.bytes(e, n), c = URL.createObjectURL(new Blob([o], { type: i }));
  if (J.set(e, c), J.size > 600) {
    const [d, u] = J.entries().next().value;
    J.delete(d), URL.revokeObjectURL(u);
  }
  return c;
}
function ft(t) {
  const { transport: e } = C(), [n, s] = q({ path: null });
  return O(() => {
    if (!t) return;
    const o = new AbortController();
    return jt(e, t, o.signal).then(
      (i) => !o.signal.aborted && s({ path: t, url: i }),
      (i) => !o.signal.aborted && s({ path: t, problem: K(i) })
    ), () => o.abort();
  }, [t, e]), t ? n.path === t ? n : { url: J.get(t) } : {};
}
function mt(t, e) {
  const n = fe(null), { url: s, problem: o } = ft(t);
  return t && s && (n.current = { path: t, url: s, about: e }), { shown: n.current, problem: o };
}
function F({ path: t, alt: e, className: n = "" }) {
  const { url: s, problem: o } = ft(t);
  if (s) return /* @__PURE__ */ r("img", { class: n, src: s, alt: e, "data-path": t, draggable: !1 });
  const i = o ? `could not be drawn: ${o.got}` : "on its way";
  return /* @__PURE__ */ r("div", { class: `blank ${n}`, role: "img", "aria-label": e ? `${e}, ${i}` : i, title: o && i });
}
function E({ problem: t }) {
  return /* @__PURE__ */ r("div", { class: "trouble", role: "alert", children: [
    /* @__PURE__ */ r("p", { children: [
      /* @__PURE__ */ r("b", { children: "Expected" }),
      " ",
      t.expected
    ] }),
    /* @__PURE__ */ r("p", { children: [
      /* @__PURE__ */ r("b", { children: "Got" }),
      " ",
      t.got
    ] }),
    /* @__PURE__ */ r("p", { children: t.todo })
  ] });
}
const X = {
  m: "",
  x: "",
  q: "",
  v: "",
  by: "channels",
  sort: "activation",
  n: 24,
  s: !1,
  w: "natural",
  bm: "",
  bx: "",
  bq: "",
  bs: "raw",
  p: []
}, Ut = {
  v: ["grid", "compare", "decide", "tokens"],
  by: ["channels", "cells"],
  sort: ["index", "activation", "contribution", "selectivity"],
  w: ["natural", "signed"],
  bs: ["raw", "first", "final"]
};
function gt(t) {
  const e = [];
  for (const n of Object.keys(X)) {
    const s = t[n];
    if (JSON.stringify(s) === JSON.stringify(X[n])) continue;
    const o = Array.isArray(s) ? s.join("|") : s === !0 ? "1" : String(s);
    e.push(`${n}=${encodeURIComponent(o).replace(/%3A/g, ":").replace(/%40/g, "@").replace(/%2C/g, ",")}`);
  }
  return e.join("&");
}
function Je(t) {
  const e = { ...X, p: [] };
  for (const n of t.replace(/^#/, "").split("&")) {
    const s = n.indexOf("=");
    if (s < 0) continue;
    const o = n.slice(0, s);
    let i = "";
    try {
      i = decodeURIComponent(n.slice(s + 1));
    } catch {
      continue;
    }
    const c = Ut[o];
    c && !c.includes(i) || (o === "p" ? e.p = i.split("|").filter(Boolean).slice(0, 24) : o === "s" ? e.s = i === "1" : o === "n" ? e.n = Math.min(2048, Math.max(1, Number.parseInt(i, 10) || X.n)) : o in X && (e[o] = i));
  }
  return e;
}
function D(t) {
  const [e, n = ""] = t.split("@", 2), s = e.search(/[:%]/);
  return s < 0 ? { node: e, units: "", coords: n } : { node: e.slice(0, s), units: e.slice(s), coords: n };
}
function ue(t) {
  return t.node + t.units + (t.coords ? `@${t.coords}` : "");
}
function z(t, e) {
  const { node: n } = D(e);
  if (!t) return;
  const s = n || t.target;
  return t.nodes.find((o) => o.name === s || o.aliases.includes(s));
}
function bt(t, e, n) {
  const s = D(t), o = /^:(\d+)$/.exec(s.units), i = o && Number(o[1]) < n.channels ? s.units : "";
  let c = "";
  return /^\d+(,\d+)*$/.test(s.coords) && e && e.coords.length === n.coords.length && (c = s.coords.split(",").map((u, a) => {
    const h = Math.floor((Number(u) + 0.5) * n.coords[a] / e.coords[a]);
    return Math.min(h, n.coords[a] - 1);
  }).join(",")), ue({ node: n.name, units: i, coords: c });
}
function Dt(t, e, n) {
  const s = D(t), o = /^:(\d+)$/.exec(s.units);
  if (!o && /^\d+(,\d+)*$/.test(s.coords)) {
    let d = s.coords.split(",").map(Number).reduce((h, f, l) => h * e.coords[l] + f, 0);
    const u = e.coords.reduce((h, f) => h * f, 1);
    d = (d + n + u) % u;
    const a = [];
    for (let h = e.coords.length - 1; h >= 0; h--)
      a.unshift(d % e.coords[h]), d = Math.floor(d / e.coords[h]);
    return ue({ ...s, node: e.name, coords: a.join(",") });
  }
  const i = o ? Number(o[1]) : n > 0 ? -1 : 0;
  return ue({ ...s, node: e.name, units: `:${(i + n + e.channels) % e.channels}` });
}
function vt(t) {
  return [t.channels, ...t.coords].join(" × ");
}
function A(t, e, n, s = {}) {
  const o = new URLSearchParams(s).toString();
  return `/${t}/${e.m}/${e.x}/${encodeURIComponent(e.q)}.${n}${o ? `?${o}` : ""}`;
}
const Ge = [["final", "answer"], ["first", "gradient under the prior"], ["raw", "plain gradient"]];
function It() {
  const { view: t, models: e, inputs: n, model: s, set: o } = C(), i = { m: t.bm || t.m, x: t.bx || t.x, q: t.bq || t.q, s: t.bs }, c = e.find((m) => m.id === i.m), [d, u] = q(i.q);
  O(() => u(i.q), [i.q]);
  const a = ee({ lens: t.m, input: t.x, query: t.q, stages: ["final"] }), h = ee({ lens: i.m, input: i.x, query: i.q, stages: [i.s] }), f = a.final?.state === "done" && h[i.s]?.state === "done", l = `${i.m}~${i.x}~${i.s}~${i.q}`, p = `${t.m}~${t.x}~final~${t.q}`, g = t.w === "signed" ? { view: "signed" } : {}, y = U(f ? A("inverse", t, "json", { with: l }) : null), v = (m) => n.find((x) => x.sha === m)?.name ?? "input", b = h[i.s]?.error ?? y.problem, _ = n.filter((m) => m.lenses.includes(i.m));
  return /* @__PURE__ */ r("div", { class: "compare", children: [
    /* @__PURE__ */ r("div", { class: "toolbar", children: [
      /* @__PURE__ */ r("b", { children: "B" }),
      /* @__PURE__ */ r("label", { children: [
        "estimator",
        " ",
        /* @__PURE__ */ r("select", { value: i.m, onChange: (m) => o({ bm: m.currentTarget.value }), children: e.map((m) => /* @__PURE__ */ r("option", { value: m.id, children: m.title }, m.id)) })
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "stage",
        " ",
        /* @__PURE__ */ r("select", { value: i.s, onChange: (m) => o({ bs: m.currentTarget.value }), children: Ge.map(([m, x]) => /* @__PURE__ */ r("option", { value: m, children: x }, m)) })
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "input",
        " ",
        /* @__PURE__ */ r("select", { value: i.x, onChange: (m) => o({ bx: m.currentTarget.value }), children: _.map((m) => /* @__PURE__ */ r("option", { value: m.sha, children: m.name }, m.sha)) })
      ] }),
      /* @__PURE__ */ r("form", { onSubmit: (m) => {
        m.preventDefault(), o({ bq: d.trim() });
      }, children: /* @__PURE__ */ r("label", { children: [
        "query ",
        /* @__PURE__ */ r("input", { value: d, spellcheck: !1, onInput: (m) => u(m.currentTarget.value) })
      ] }) })
    ] }),
    b && /* @__PURE__ */ r(E, { problem: b }),
    s?.picture && c?.picture && !b && /* @__PURE__ */ r("div", { class: "three", children: [
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: f ? A("inverse", t, "png", { with: l, ...g }) : null, alt: `A: ${t.q}`, className: "side-a" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "A" }),
          " ",
          /* @__PURE__ */ r("span", { children: [
            v(t.x),
            " · ",
            t.q
          ] })
        ] })
      ] }),
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: f ? A("inverse", i, "png", { stage: i.s, with: p, ...g }) : null, alt: `B: ${i.q}`, className: "side-b" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "B" }),
          " ",
          /* @__PURE__ */ r("span", { children: [
            v(i.x),
            " · ",
            i.q,
            " · ",
            Ge.find(([m]) => m === i.s)?.[1]
          ] })
        ] })
      ] }),
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: f ? A("inverse", t, "png", { minus: l }) : null, alt: "A minus B", className: "minus" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "A − B" }),
          " ",
          /* @__PURE__ */ r("span", { children: "signed: red where A is brighter" })
        ] })
      ] })
    ] }),
    y.data && /* @__PURE__ */ r("p", { class: "note", role: "status", "data-cosine": y.data.cosine_between, children: [
      "Cosine of A with B ",
      y.data.cosine_between.toFixed(3),
      ".",
      " ",
      y.data.scaled ? "They have different units: both are brought to length one." : `Lengths ${y.data.lengths?.map((m) => m.toPrecision(3)).join(" and ")}; one colour scale.`
    ] })
  ] });
}
const be = {
  positive: "for the decision",
  negative: "against it",
  matched: "control: as active",
  random: "control: random"
};
function Ht() {
  const { view: t, model: e, set: n } = C(), s = z(e, t.q), { data: o, problem: i } = U(s ? A("decide", { ...t, q: s.name }, "json") : null);
  if (i) return /* @__PURE__ */ r(E, { problem: i });
  if (!o || !s) return /* @__PURE__ */ r("p", { class: "note", role: "status", children: [
    "Ranking the channels of ",
    s?.name,
    " …"
  ] });
  const c = Math.max(...o.rows.map((a) => Math.abs(a.drop)), Math.abs(o.decision.margin)), d = [...new Set(o.rows.map((a) => a.size))], u = o.rows.filter((a) => a.kind === "positive" || a.kind === "negative");
  return /* @__PURE__ */ r("div", { class: "decide", children: [
    /* @__PURE__ */ r("p", { class: "note", children: [
      "Class ",
      o.decision.top,
      " (",
      (100 * o.decision.probability).toFixed(0),
      " %) before class ",
      o.decision.second,
      "; margin ",
      o.decision.margin.toFixed(2),
      " in logits."
    ] }),
    /* @__PURE__ */ r("div", { class: "branches", children: [
      /* @__PURE__ */ r("section", { "aria-label": "Inversion", children: [
        /* @__PURE__ */ r("h3", { children: [
          "What the groups identify ",
          /* @__PURE__ */ r("small", { children: "inversion; never fed back to the model" })
        ] }),
        /* @__PURE__ */ r("ul", { class: "tiles", children: u.map((a) => /* @__PURE__ */ r("li", { class: "tile", children: [
          /* @__PURE__ */ r("button", { type: "button", class: "pick", "aria-label": `Look at ${a.query}`, "data-query": a.query, onClick: () => n({ q: a.query }), children: /* @__PURE__ */ r(Bt, { query: a.query }) }),
          /* @__PURE__ */ r("span", { class: "under wrap", children: [
            a.size,
            " ",
            be[a.kind],
            /* @__PURE__ */ r("br", {}),
            /* @__PURE__ */ r("code", { children: D(a.query).units })
          ] })
        ] }, a.kind + a.size)) })
      ] }),
      /* @__PURE__ */ r("section", { "aria-label": "Intervention", children: [
        /* @__PURE__ */ r("h3", { children: [
          "What zeroing them does ",
          /* @__PURE__ */ r("small", { children: "the original model, no inverse involved" })
        ] }),
        /* @__PURE__ */ r("table", { children: [
          /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
            /* @__PURE__ */ r("th", { scope: "col", children: "channels" }),
            d.map((a) => /* @__PURE__ */ r("th", { scope: "col", children: a }, a))
          ] }) }),
          /* @__PURE__ */ r("tbody", { children: Object.keys(be).map((a) => /* @__PURE__ */ r("tr", { children: [
            /* @__PURE__ */ r("th", { scope: "row", children: be[a] }),
            d.map((h) => {
              const f = o.rows.find((l) => l.kind === a && l.size === h);
              return /* @__PURE__ */ r("td", { children: f && /* @__PURE__ */ r(j, { children: [
                /* @__PURE__ */ r("b", { children: f.drop.toFixed(2) }),
                f.flipped > 0 && /* @__PURE__ */ r("small", { children: [
                  " ",
                  f.groups > 1 ? `${Math.round(100 * f.flipped)} % flip` : "flips"
                ] }),
                /* @__PURE__ */ r("span", { class: f.drop < 0 ? "score minus" : "score", children: /* @__PURE__ */ r("span", { style: { width: `${100 * Math.abs(f.drop) / c}%` } }) })
              ] }) }, h);
            })
          ] }, a)) })
        ] }),
        /* @__PURE__ */ r("p", { class: "note", children: [
          "Drop of the margin when a group of that size is set to zero; negative where the margin grew. Random: mean of ",
          o.rows.find((a) => a.kind === "random")?.groups,
          " groups."
        ] })
      ] })
    ] })
  ] });
}
function Bt({ query: t }) {
  const { view: e, model: n } = C(), { final: s } = ee({ lens: e.m, input: e.x, query: t, stages: ["final"], background: !0 });
  return n?.picture ? /* @__PURE__ */ r(F, { path: s?.state === "done" ? A("inverse", { ...e, q: t }, "png") : null, alt: "" }) : null;
}
function Ft() {
  const { view: t, model: e, transport: n, say: s } = C(), [o, i] = q(null), c = { stage: t.s ? "share" : "final", ...t.w === "signed" ? { view: "signed" } : {} }, d = (l) => A(l === "png" || l === "safetensors" ? "inverse" : "export", t, l, c), u = `${t.q.replace(/[^\w.-]+/g, "_")}`, a = async (l) => {
    i(null);
    try {
      const { body: p, type: g } = await n.bytes(d(l)), y = document.createElement("a");
      y.href = URL.createObjectURL(new Blob([p], { type: g })), y.download = `${u}.${l}`, y.click(), setTimeout(() => URL.revokeObjectURL(y.href), 1e4);
    } catch (p) {
      i(K(p));
    }
  }, h = async (l) => {
    i(null);
    try {
      const { body: p } = await n.bytes(d(l));
      await navigator.clipboard.writeText(new TextDecoder().decode(p)), s(l === "py" ? "Python lines copied" : "Command copied");
    } catch (p) {
      i(K(p));
    }
  }, f = e?.picture ? ["png", "svg", "html", "safetensors"] : ["html", "safetensors"];
  return /* @__PURE__ */ r("section", { class: "export", "aria-label": "Export", children: [
    /* @__PURE__ */ r("span", { children: "Save" }),
    f.map((l) => /* @__PURE__ */ r("button", { type: "button", onClick: () => void a(l), children: l === "html" ? "single HTML file" : l.toUpperCase() }, l)),
    /* @__PURE__ */ r("span", { children: "Copy" }),
    /* @__PURE__ */ r("button", { type: "button", onClick: () => void h("py"), children: "Python lines" }),
    /* @__PURE__ */ r("button", { type: "button", onClick: () => void h("sh"), children: "command line" }),
    /* @__PURE__ */ r("code", { class: "again", children: [
      'sgfi export "#',
      gt({ ...t, p: [], v: "" }),
      '"'
    ] }),
    o && /* @__PURE__ */ r(E, { problem: o })
  ] });
}
const ve = 24, Wt = 64, Ke = /* @__PURE__ */ new Set();
function zt() {
  const { view: t, model: e, set: n } = C(), s = z(e, t.q), o = s ? { m: t.m, x: t.x, q: s.name } : null, i = U(o ? A("scores", o, "json") : null), c = `${t.m} ${t.x}`, [d, u] = q({ about: c, queries: Ke }), a = d.about === c ? d.queries : Ke, h = (w) => u((M) => ({ about: c, queries: /* @__PURE__ */ new Set([...M.about === c ? M.queries : [], w]) })), f = s && s.coords.length === 0, l = f ? "channels" : t.by, p = Z(() => Jt(s?.name ?? "", i.data, l), [s?.name, i.data, l]), g = i.data?.[l], y = Z(() => Gt(p, t.sort === "contribution" ? g?.contribution : t.sort === "index" ? void 0 : g?.activation).slice(0, t.n), [p, g, t.sort, t.n]), v = y.filter((w) => a.has(w.query)).map((w) => w.query), b = U(
    o && t.sort === "selectivity" && v.length > 1 && v.length === y.length ? A("likeness", { ...o, q: v.join("|") }, "json") : null
  );
  if (!e || !s) return null;
  if (i.problem) return /* @__PURE__ */ r(E, { problem: i.problem });
  const _ = b.data?.selectivity, m = _ ? [...y].sort((w, M) => (_[M.query] ?? 0) - (_[w.query] ?? 0)) : y, x = (w) => t.sort === "selectivity" ? _?.[w.query] : t.sort === "contribution" ? g?.contribution?.[w.index] : g?.activation[w.index], N = Math.max(...m.map((w) => Math.abs(x(w) ?? 0)), 1e-9), P = (w, M, I = 0) => /* @__PURE__ */ r(
    Kt,
    {
      unit: w,
      pinned: M,
      asked: I < v.length + Wt,
      score: x(w),
      most: N,
      now: w.query === t.q,
      ended: () => h(w.query)
    },
    w.query
  ), L = t.p.map((w) => ({ query: w, label: w, index: -1 })), T = ["activation", "contribution", "selectivity", "index"];
  return /* @__PURE__ */ r("div", { class: "grid-tab", children: [
    /* @__PURE__ */ r("div", { class: "toolbar", children: [
      /* @__PURE__ */ r("fieldset", { children: [
        /* @__PURE__ */ r("legend", { children: "units" }),
        ["channels", "cells"].map((w) => /* @__PURE__ */ r("button", { type: "button", disabled: w === "cells" && !!f, "aria-pressed": l === w, onClick: () => n({ by: w, n: ve }), children: w }, w))
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "sort by",
        " ",
        /* @__PURE__ */ r("select", { value: t.sort, onChange: (w) => n({ sort: w.currentTarget.value }), children: T.map((w) => /* @__PURE__ */ r("option", { value: w, disabled: w === "contribution" && !!g && !g.contribution, children: w === "contribution" ? "decision contribution" : w }, w)) })
      ] }),
      /* @__PURE__ */ r("span", { class: "count", role: "status", children: [
        v.length,
        " of ",
        m.length,
        " shown, ",
        p.length,
        " in all"
      ] })
    ] }),
    L.length > 0 && /* @__PURE__ */ r(j, { children: [
      /* @__PURE__ */ r("h3", { class: "pins", children: "Pinned" }),
      /* @__PURE__ */ r("ul", { class: "tiles", "aria-label": "Pinned", children: L.map((w) => P(w, !0)) })
    ] }),
    /* @__PURE__ */ r("ul", { class: "tiles", "aria-label": `${l} of ${s.name}`, children: m.map((w, M) => P(w, !1, M)) }),
    m.length < p.length && /* @__PURE__ */ r("button", { type: "button", class: "more", onClick: () => n({ n: Math.min(p.length, t.n + ve) }, !0), children: [
      ve,
      " more"
    ] }),
    t.sort === "selectivity" && /* @__PURE__ */ r("p", { class: "note", children: "Selectivity: one minus the mean absolute cosine with the other answers shown here. Known when all of them are." }),
    t.sort === "contribution" && /* @__PURE__ */ r("p", { class: "note", children: "Contribution: activation times gradient of the margin between the first two classes, to first order." })
  ] });
}
function Jt(t, e, n) {
  return !e || e.node !== t ? [] : n === "channels" ? e.channels.activation.map((s, o) => ({ query: `${t}:${o}`, label: `:${o}`, index: o })) : e.cells.at.map((s, o) => ({ query: `${t}@${s.join(",")}`, label: `@${s.join(",")}`, index: o }));
}
function Gt(t, e) {
  return e ? [...t].sort((n, s) => e[s.index] - e[n.index] || n.index - s.index) : t;
}
function Kt(t) {
  const { view: e, model: n, set: s } = C(), { unit: o } = t, i = n?.picture ? ["preview", "final"] : ["final"], c = ee(t.asked ? { lens: e.m, input: e.x, query: o.query, stages: i, background: !0 } : null), { state: d, facts: u, error: a } = c.final ?? {}, h = d === "done" ? "final" : c.preview?.state === "done" ? "preview" : "", f = h && n?.picture ? A("inverse", { ...e, q: o.query }, "png", { stage: h, ...e.w === "signed" ? { view: "signed" } : {} }) : null, { shown: l } = mt(f, { of: `${e.m} ${e.x}`, stage: h }), p = l?.about.of === `${e.m} ${e.x}` ? l : null, g = n?.picture ? p?.about.stage ?? "none" : h;
  O(() => {
    d === "done" && t.ended();
  }, [d, e.m, e.x]);
  const y = u?.profile, v = () => s({ p: t.pinned || e.p.includes(o.query) ? e.p.filter((b) => b !== o.query) : [...e.p, o.query] }, !0);
  return /* @__PURE__ */ r("li", { class: t.now ? "tile now" : "tile", children: [
    /* @__PURE__ */ r("button", { type: "button", class: "pick", "aria-current": t.now ? "true" : void 0, "aria-label": `Look at ${o.query}`, title: o.query, "data-query": o.query, "data-stage": g, onClick: () => s({ q: o.query }), children: [
      n?.picture && (p ? /* @__PURE__ */ r("img", { class: g, src: p.url, alt: "", "data-path": p.path, draggable: !1 }) : /* @__PURE__ */ r("div", { class: "blank" })),
      n?.text && /* @__PURE__ */ r(Vt, { values: y }),
      g === "preview" && /* @__PURE__ */ r("span", { class: "badge", title: "Plain gradient, not the answer", children: "preview" }),
      a && /* @__PURE__ */ r("span", { class: "wrong", title: a.got, children: "!" })
    ] }),
    /* @__PURE__ */ r("span", { class: "under", children: [
      /* @__PURE__ */ r("code", { children: o.label }),
      t.score !== void 0 && /* @__PURE__ */ r("span", { class: t.score < 0 ? "score minus" : "score", title: t.score.toPrecision(3), children: /* @__PURE__ */ r("span", { style: { width: `${Math.abs(t.score) / t.most * 100}%` } }) }),
      /* @__PURE__ */ r("button", { type: "button", class: "pin", "aria-pressed": e.p.includes(o.query), "aria-label": `Pin ${o.query}`, onClick: v, children: e.p.includes(o.query) ? "●" : "○" })
    ] })
  ] });
}
function Vt({ values: t }) {
  if (!t) return /* @__PURE__ */ r("span", { class: "blank" });
  const e = Math.max(...t, 1e-9);
  return /* @__PURE__ */ r("svg", { class: "spark", viewBox: `0 0 ${t.length} 1`, preserveAspectRatio: "none", "aria-hidden": "true", children: t.map((n, s) => /* @__PURE__ */ r("rect", { x: s + 0.05, y: 1 - n / e, width: 0.9, height: n / e }, s)) });
}
const H = 30;
function Qt() {
  const { model: t, view: e, set: n } = C(), s = fe(null), o = z(t, e.q);
  if (O(() => {
    s.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [o?.name]), !t) return null;
  const i = ["input", ...t.nodes.map((d) => d.name)], c = t.edges.map(([d, u]) => [i.indexOf(d), i.indexOf(u)]).filter(([d, u]) => d >= 0 && u - d > 1);
  return /* @__PURE__ */ r("nav", { class: "ladder", "aria-label": "Tensors, shallow to deep", children: /* @__PURE__ */ r("div", { class: "rungs", children: [
    /* @__PURE__ */ r("svg", { class: "dag", width: "22", height: i.length * H, "aria-hidden": "true", children: [
      /* @__PURE__ */ r("path", { d: `M15 ${H / 2}V${(i.length - 0.5) * H}` }),
      c.map(([d, u]) => /* @__PURE__ */ r("path", { class: "skip", d: `M15 ${(d + 0.5) * H}C2 ${(d + 0.5) * H} 2 ${(u + 0.5) * H} 15 ${(u + 0.5) * H}` }, `${d}-${u}`)),
      i.map((d, u) => /* @__PURE__ */ r("circle", { class: d === o?.name ? "now" : "", cx: "15", cy: (u + 0.5) * H, r: d === o?.name ? 5 : 3 }, d))
    ] }),
    /* @__PURE__ */ r("ol", { children: [
      /* @__PURE__ */ r("li", { class: "source", children: [
        /* @__PURE__ */ r("span", { children: "input" }),
        /* @__PURE__ */ r("small", { children: t.input.join(" × ") })
      ] }),
      t.nodes.map((d) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r(
        "button",
        {
          type: "button",
          ref: d.name === o?.name ? s : void 0,
          "aria-current": d.name === o?.name ? "true" : void 0,
          title: `${d.name} (${d.op})`,
          onClick: () => n({ q: bt(e.q, o, d) }),
          children: [
            /* @__PURE__ */ r("span", { children: d.name }),
            /* @__PURE__ */ r("small", { children: vt(d) })
          ]
        }
      ) }, d.name))
    ] })
  ] }) });
}
const Ve = 20 * 2 ** 20;
function Xt({ close: t }) {
  const { models: e, inputs: n, view: s, model: o, set: i, refresh: c, transport: d, say: u } = C(), [a, h] = q(null), [f, l] = q(!1), [p, g] = q(""), y = U("/api/health").data, v = async (_, m) => {
    if (h(null), _.size > Ve) {
      h({ expected: `at most ${Ve >> 20} MiB`, got: `${(_.size / 2 ** 20).toFixed(1)} MiB`, todo: "Choose a smaller file." });
      return;
    }
    try {
      const { sha: x } = await d.upload(_, m), P = (await c()).find((L) => L.sha === x)?.lenses ?? [];
      i({ x, ...P.includes(s.m) || !P.length ? {} : { m: P[0], q: "" } }), u(`${m} added`), t();
    } catch (x) {
      h(K(x));
    }
  }, b = n.filter((_) => !o || _.lenses.includes(o.id));
  return /* @__PURE__ */ r("section", { class: "open", "aria-label": "Open", children: [
    /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("h2", { children: "Models" }),
      /* @__PURE__ */ r("ul", { class: "models", children: e.map((_) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r(
        "button",
        {
          type: "button",
          "aria-current": _.id === s.m ? "true" : void 0,
          onClick: () => {
            const m = n.find((x) => x.lenses.includes(_.id));
            i({ m: _.id, q: "", x: b.some((x) => x.sha === s.x && x.lenses.includes(_.id)) ? s.x : m?.sha ?? "" });
          },
          children: [
            /* @__PURE__ */ r("b", { children: _.title }),
            /* @__PURE__ */ r("span", { children: [
              _.kind === "natural" ? "natural inverse, no calibration" : "calibrated maps",
              " · ",
              _.nodes.length,
              " tensors · ",
              _.input.join(" × ")
            ] })
          ]
        }
      ) }, _.id)) }),
      /* @__PURE__ */ r("p", { class: "note", children: [
        "More models or map folders: name them on the command line, ",
        /* @__PURE__ */ r("code", { children: "sgfi explore torchvision:resnet50 maps/mine photo.jpg" }),
        "."
      ] }),
      y && /* @__PURE__ */ r("p", { class: "note", role: "status", children: [
        y.waiting ? `${y.waiting} questions at work` : "Nothing at work",
        " · ",
        y.counts.done,
        " answered, ",
        y.counts.cancelled,
        " cancelled"
      ] })
    ] }),
    /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("h2", { children: "Inputs" }),
      /* @__PURE__ */ r("ul", { class: "inputs", children: b.map((_) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r("button", { type: "button", "aria-current": _.sha === s.x ? "true" : void 0, onClick: () => {
        i({ x: _.sha }), t();
      }, children: [
        _.kind !== "text" && o?.picture && /* @__PURE__ */ r(F, { path: `/input/${o.id}/${_.sha}.png`, alt: "" }),
        /* @__PURE__ */ r("span", { children: _.name })
      ] }) }, _.sha)) }),
      o?.text ? /* @__PURE__ */ r("form", { class: "write", onSubmit: (_) => {
        _.preventDefault(), p.trim() && v(new Blob([p], { type: "text/plain" }), p.slice(0, 80));
      }, children: [
        /* @__PURE__ */ r("label", { children: [
          "A text ",
          /* @__PURE__ */ r("textarea", { value: p, rows: 2, onInput: (_) => g(_.currentTarget.value) })
        ] }),
        /* @__PURE__ */ r("button", { type: "submit", children: "Add" })
      ] }) : /* @__PURE__ */ r(
        "label",
        {
          class: f ? "drop over" : "drop",
          onDragOver: (_) => {
            _.preventDefault(), l(!0);
          },
          onDragLeave: () => l(!1),
          onDrop: (_) => {
            _.preventDefault(), l(!1);
            const m = _.dataTransfer?.files[0];
            m && v(m, m.name);
          },
          children: [
            /* @__PURE__ */ r("input", { type: "file", accept: "image/*", onChange: (_) => {
              const m = _.currentTarget.files?.[0];
              m && v(m, m.name);
            } }),
            /* @__PURE__ */ r("span", { children: "Drop a picture here, or choose one. It stays on this computer." })
          ]
        }
      ),
      a && /* @__PURE__ */ r(E, { problem: a })
    ] })
  ] });
}
const Qe = 8, Yt = {
  preview: "preview: plain gradient, not the answer",
  final: "natural inverse",
  share: "natural inverse, faded where it is not determined"
};
function Zt(t) {
  const { view: e, model: n } = C(), s = ["share", "final", "preview"].find((h) => t[h]?.state === "done") ?? "", o = t[s]?.facts, i = s ? A("inverse", { ...e, q: o?.query ?? e.q }, "png", { stage: s, ...e.w === "signed" ? { view: "signed" } : {} }) : null, c = `${e.m} ${e.x} ${e.q}`, d = n?.kind === "maps" && s === "final" ? "calibrated maps" : Yt[s], { shown: u, problem: a } = mt(i, { asked: c, query: e.q, stage: s, label: d, facts: o });
  return { shown: u, current: u?.about.asked === c, problem: a };
}
function en({ stages: t }) {
  const { view: e, model: n, set: s, inputs: o } = C(), i = z(n, e.q), [c, d] = q(!1), [u, a] = q(null), [h, f] = q(null), l = !!n?.picture && i?.coords.length === 2, p = U(c && l && i ? A("reads", { ...e, q: i.name }, "json") : null), { shown: g, current: y, problem: v } = Zt(t);
  if (!n) return null;
  const b = Object.values(t).find((T) => T.state === "failed" && T.error)?.error ?? v, _ = y && g ? g.about.stage : "none", m = p.data, x = m && h !== null ? m.share.map((T) => T[h]) : null, N = m && u !== null ? m.share[u] : null, P = o.find((T) => T.sha === e.x)?.name ?? "input", L = D(e.q).coords.split(";").filter(Boolean);
  return /* @__PURE__ */ r("section", { class: "panels", "aria-label": "Input and inverse", children: [
    /* @__PURE__ */ r("figure", { children: [
      /* @__PURE__ */ r("div", { class: "frame", onPointerEnter: () => d(!0), children: [
        /* @__PURE__ */ r(F, { path: e.x ? `/input/${e.m}/${e.x}.png` : null, alt: `${P} as the model sees it` }),
        l && /* @__PURE__ */ r(
          Xe,
          {
            rows: Math.min(Qe, n.input[1]),
            columns: Math.min(Qe, n.input[2]),
            weights: x,
            onHover: a,
            label: (T) => `place ${T.join(", ")}`
          }
        )
      ] }),
      /* @__PURE__ */ r("figcaption", { children: [
        /* @__PURE__ */ r("b", { children: P }),
        " ",
        /* @__PURE__ */ r("span", { children: nn(c && l, !!m, x ? "what the cell reads" : "hover: which cells read it") })
      ] })
    ] }),
    /* @__PURE__ */ r("figure", { children: [
      /* @__PURE__ */ r("div", { class: "frame", onPointerEnter: () => d(!0), children: [
        g ? /* @__PURE__ */ r("img", { class: `answer ${g.about.stage} ${y ? "" : "stale"}`, src: g.url, alt: `${g.about.label} of ${g.about.query}`, "data-path": g.path, draggable: !1 }) : /* @__PURE__ */ r("div", { class: "blank answer", role: "img", "aria-label": `${e.q}, on its way` }),
        l && i && /* @__PURE__ */ r(
          Xe,
          {
            rows: i.coords[0],
            columns: i.coords[1],
            weights: N,
            marked: L,
            onHover: f,
            label: (T) => `cell ${T.join(", ")}`,
            onPick: (T) => s({ q: ue({ ...D(e.q), node: i.name, coords: T.join(",") }) })
          }
        ),
        (_ === "none" || _ === "preview") && !b && /* @__PURE__ */ r(rn, { stages: t })
      ] }),
      /* @__PURE__ */ r("figcaption", { "data-stage": _, "data-query": e.q, children: y && g ? /* @__PURE__ */ r(tn, { answer: g.about }) : /* @__PURE__ */ r(j, { children: [
        /* @__PURE__ */ r("b", { children: b ? "no answer" : "on its way" }),
        " ",
        /* @__PURE__ */ r("span", { children: g && /* @__PURE__ */ r(j, { children: [
          "still shown: ",
          /* @__PURE__ */ r("code", { children: g.about.query })
        ] }) })
      ] }) })
    ] }),
    b && /* @__PURE__ */ r(E, { problem: b })
  ] });
}
function tn({ answer: { label: t, stage: e, facts: n } }) {
  return /* @__PURE__ */ r(j, { children: [
    /* @__PURE__ */ r("b", { children: t }),
    " ",
    /* @__PURE__ */ r("span", { children: [
      n?.gain !== void 0 && e !== "preview" && n.gain > 1.05 && `gain ${n.gain.toFixed(1)} · `,
      typeof n?.share == "number" && `share up to ${n.share.toFixed(2)} · `,
      n && `${n.seconds.toFixed(2)} s`
    ] })
  ] });
}
function nn(t, e, n) {
  return t ? e ? n : "working out who reads what …" : "";
}
function rn({ stages: t }) {
  const e = t.final ?? t.preview, n = e ? e.state === "queued" ? "waiting …" : e.state === "working" ? `solving, step ${e.steps}` : "" : "asking …";
  return /* @__PURE__ */ r("div", { class: "progress", role: "status", children: n });
}
function Xe(t) {
  const { rows: e, columns: n } = t;
  if (!e || !n || e * n > 4096) return null;
  const s = t.weights ? Math.max(...t.weights, 1e-9) : 1, o = (i) => {
    const c = i.currentTarget.getBoundingClientRect(), d = Math.min(e - 1, Math.max(0, Math.floor((i.clientY - c.top) / c.height * e))), u = Math.min(n - 1, Math.max(0, Math.floor((i.clientX - c.left) / c.width * n)));
    return [d, u];
  };
  return /* @__PURE__ */ r(
    "svg",
    {
      class: `cells ${t.onPick ? "pick" : ""}`,
      viewBox: `0 0 ${n} ${e}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      onPointerMove: (i) => {
        const [c, d] = o(i);
        t.onHover(c * n + d);
      },
      onPointerLeave: () => t.onHover(null),
      onClick: (i) => t.onPick?.(o(i)),
      children: [
        t.weights?.map((i, c) => {
          const d = Math.sqrt(i / s);
          return /* @__PURE__ */ r("rect", { class: "shade", x: c % n, y: Math.floor(c / n), width: 1, height: 1, "fill-opacity": (1 - d) * 0.82 }, c);
        }),
        t.marked?.map((i) => {
          const [c, d] = i.split(",").map(Number);
          return /* @__PURE__ */ r("rect", { class: "mark", x: d, y: c, width: 1, height: 1 }, i);
        })
      ]
    }
  );
}
function yt() {
  const { view: t, inputs: e } = C(), n = e.some((s) => s.sha === t.x);
  return U(n ? `/input/${t.m}/${t.x}.json` : null).data?.tokens ?? void 0;
}
const le = (t) => t.replace(/\n/g, "↵").trim() || "␣";
function sn({ stages: t }) {
  const { view: e } = C(), n = yt(), s = ["final", "preview"].find((u) => t[u]?.state === "done"), o = s ? t[s].facts?.profile : void 0, i = Object.values(t).find((u) => u.state === "failed" && u.error), c = new Set(D(e.q).coords.split(";").filter(Boolean).map(Number)), d = o ? Math.max(...o, 1e-9) : 1;
  return /* @__PURE__ */ r("section", { class: "strip", "aria-label": "Source tokens", "data-stage": s ?? "none", "data-query": e.q, children: [
    /* @__PURE__ */ r("ol", { children: n?.map((u, a) => /* @__PURE__ */ r("li", { class: c.has(a) ? "asked" : "", title: o ? `${(100 * o[a]).toFixed(1)} % of the energy` : "", children: [
      /* @__PURE__ */ r("span", { class: "fill", style: { opacity: o ? 0.75 * (o[a] / d) : 0 } }),
      /* @__PURE__ */ r("b", { children: le(u) }),
      /* @__PURE__ */ r("small", { children: o ? `${(100 * o[a]).toFixed(0)} %` : "…" })
    ] }, a)) }),
    /* @__PURE__ */ r("p", { class: "note", children: s === "preview" ? "Preview: plain gradient, not the answer." : "Where the inverse of the framed tokens' state lies: share of its energy, token by token. Neither attention nor probability." }),
    i?.error && /* @__PURE__ */ r(E, { problem: i.error })
  ] });
}
function on() {
  const { view: t, model: e, set: n } = C(), s = yt(), { data: o, problem: i } = U(e ? A("tokens", { ...t, q: e.target }, "json") : null), c = z(e, t.q)?.name ?? D(t.q).node, d = Number(D(t.q).coords.split(";")[0] || 0);
  if (i) return /* @__PURE__ */ r(E, { problem: i });
  if (!o || !s) return /* @__PURE__ */ r("p", { class: "note", role: "status", children: "Reading out every layer …" });
  const u = o.rows.find((a) => a.node === c);
  return /* @__PURE__ */ r("div", { class: "tokens", children: [
    /* @__PURE__ */ r("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Layer by position", children: /* @__PURE__ */ r("table", { children: [
      /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
        /* @__PURE__ */ r("th", { scope: "col", children: "layer" }),
        s.map((a, h) => /* @__PURE__ */ r("th", { scope: "col", children: le(a) }, h))
      ] }) }),
      /* @__PURE__ */ r("tbody", { children: [...o.rows].reverse().map((a) => /* @__PURE__ */ r("tr", { children: [
        /* @__PURE__ */ r("th", { scope: "row", children: /* @__PURE__ */ r("code", { children: a.node.replace(/^.*?(\d+)(\D*)$/, "$1$2") }) }),
        s.map((h, f) => /* @__PURE__ */ r("td", { children: /* @__PURE__ */ r(
          "button",
          {
            type: "button",
            class: a.node === c && f === d ? "now" : "",
            "aria-label": `${a.node} at ${f}, going to ${a.next[f][0]}`,
            "data-query": `${a.node}@${f}`,
            onClick: () => n({ q: `${a.node}@${f}` }),
            children: [
              /* @__PURE__ */ r("span", { class: "fill", style: { opacity: 0.6 * a.odds[f][0] } }),
              /* @__PURE__ */ r("span", { children: le(a.next[f][0]) })
            ]
          }
        ) }, f))
      ] }, a.node)) })
    ] }) }),
    u && /* @__PURE__ */ r("section", { "aria-label": "Going to", children: [
      /* @__PURE__ */ r("h3", { children: [
        "Going to ",
        /* @__PURE__ */ r("small", { children: [
          u.lens,
          " at ",
          u.node,
          ", position ",
          d
        ] })
      ] }),
      /* @__PURE__ */ r("ol", { children: u.next[d]?.map((a, h) => /* @__PURE__ */ r("li", { children: [
        /* @__PURE__ */ r("b", { children: le(a) }),
        " ",
        /* @__PURE__ */ r("small", { children: [
          (100 * u.odds[d][h]).toFixed(1),
          " %"
        ] })
      ] }, h)) }),
      /* @__PURE__ */ r("p", { class: "note", children: [
        "The residual state after this layer, ",
        u.lens === "logit lens" ? "read out by the final norm and the unembedding as if the model ended here." : "carried to the end by the matrix of your Jacobian lens, then read out by the final norm and the unembedding."
      ] })
    ] })
  ] });
}
const ln = {
  follows: ["good", "The picture follows its target"],
  swapped: ["fair", "Another input's target gives nearly this picture"],
  alike: ["fair", "Follows its target, but its neighbours look alike"],
  "operating point": ["bad", "A picture of the operating point, not of the feature"],
  single: ["plain", "One number: a target can only scale its picture"]
};
function an({ stages: t }) {
  const { view: e, model: n, inputs: s } = C(), o = t.trust, i = o?.state === "done" ? o.facts : void 0, [c, d] = ln[i?.verdict ?? ""] ?? ["wait", "Checking …"], u = t.final?.facts, a = s.find((f) => f.sha === i?.other)?.name, h = (f) => i && n?.picture ? A("trust", { ...e, q: i.query }, "png", { part: f }) : null;
  return /* @__PURE__ */ r("aside", { class: `trust ${c}`, "aria-label": "Trust", children: [
    /* @__PURE__ */ r("h2", { children: "Trust" }),
    /* @__PURE__ */ r("p", { class: "verdict", role: "status", "data-verdict": i?.verdict ?? "", children: o?.state === "failed" ? "The controls could not be worked out." : d }),
    i?.verdict === "operating point" && /* @__PURE__ */ r("p", { class: "plain", children: "Random targets give nearly this picture. It shows what the model computes around this input, whatever the feature says." }),
    i?.verdict === "swapped" && /* @__PURE__ */ r("p", { class: "plain", children: "It changes with a random target, but hardly with another input's: what is seen is mostly this input's operating point." }),
    /* @__PURE__ */ r("dl", { children: [
      /* @__PURE__ */ r(ye, { name: "random target", value: i?.random, note: i && i.random === null ? "one number" : "near 0 is good", ready: !!i }),
      /* @__PURE__ */ r(ye, { name: a ? `${a}'s target` : "another input's target", value: i?.swapped, note: i && i.swapped === null ? "no other input" : "low is good", ready: !!i }),
      /* @__PURE__ */ r(ye, { name: "neighbouring queries", value: i?.neighbours, note: i && i.neighbours === null ? "none" : "low: selective", ready: !!i }),
      /* @__PURE__ */ r("div", { children: [
        /* @__PURE__ */ r("dt", { children: "zero target" }),
        /* @__PURE__ */ r("dd", { children: i ? i.zero === 0 ? "exactly zero" : `up to ${i.zero?.toExponential(1)}` : "…" })
      ] })
    ] }),
    n?.picture && /* @__PURE__ */ r("div", { class: "controls", children: [
      i?.random !== null && /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: h("random"), alt: "What a random target gives" }),
        /* @__PURE__ */ r("figcaption", { children: "random target" })
      ] }),
      i?.swapped !== null && /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: h("swapped"), alt: "What another input's target gives" }),
        /* @__PURE__ */ r("figcaption", { children: a ? `${a}'s target` : "swapped target" })
      ] })
    ] }),
    i?.sentence && /* @__PURE__ */ r("p", { class: "sentence", children: i.sentence }),
    /* @__PURE__ */ r("h3", { children: "This answer" }),
    /* @__PURE__ */ r("dl", { class: "small", children: [
      /* @__PURE__ */ r(ne, { name: "cosine with the input", value: u?.cosine?.toFixed(2) }),
      /* @__PURE__ */ r(ne, { name: "residual of the solve", value: u?.residual?.toFixed(3) }),
      /* @__PURE__ */ r(ne, { name: "steps", value: u?.steps !== void 0 ? u.steps === 0 ? "exact" : String(u.steps) : void 0 }),
      /* @__PURE__ */ r(ne, { name: "numbers asked for", value: i?.numbers?.toLocaleString("en") })
    ] }),
    n?.kind === "maps" && /* @__PURE__ */ r(cn, { id: n.id })
  ] });
}
function cn({ id: t }) {
  const { data: e } = U(`/quality/${t}.json`);
  if (!e) return null;
  const n = (i) => typeof i == "number" ? `${(100 * i).toFixed(1)} %` : "–", s = e.nodes.find((i) => i.name === "input"), o = s && (s.unseen.length ? s.unseen[s.unseen.length - 1] : s.seen);
  return /* @__PURE__ */ r("section", { class: "maps", "aria-label": "These maps", children: [
    /* @__PURE__ */ r("h3", { children: "These maps" }),
    e.why && /* @__PURE__ */ r("p", { class: "plain", children: e.why }),
    s && /* @__PURE__ */ r("p", { class: "plain", "data-missed": o ?? "", children: [
      "Miss ",
      n(o),
      " of the input's energy on ",
      s.unseen.length ? "samples they have not seen" : "the samples they were fitted to, after the first map",
      "."
    ] }),
    e.nodes.length > 0 && /* @__PURE__ */ r("details", { children: [
      /* @__PURE__ */ r("summary", { children: "Every node, and advice" }),
      /* @__PURE__ */ r("table", { children: [
        /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
          /* @__PURE__ */ r("th", { scope: "col", children: "node" }),
          /* @__PURE__ */ r("th", { scope: "col", children: "seen" }),
          /* @__PURE__ */ r("th", { scope: "col", children: "unseen" }),
          /* @__PURE__ */ r("th", { scope: "col", children: "lost" })
        ] }) }),
        /* @__PURE__ */ r("tbody", { children: e.nodes.map((i) => /* @__PURE__ */ r("tr", { children: [
          /* @__PURE__ */ r("th", { scope: "row", children: /* @__PURE__ */ r("code", { children: i.name }) }),
          /* @__PURE__ */ r("td", { children: n(i.seen) }),
          /* @__PURE__ */ r("td", { children: n(i.unseen[i.unseen.length - 1]) }),
          /* @__PURE__ */ r("td", { children: n(i.lost) })
        ] }, i.name)) })
      ] }),
      (e.advice.length ? e.advice : ["Nothing stands out."]).map((i) => /* @__PURE__ */ r("p", { class: "plain", children: i }, i))
    ] })
  ] });
}
function ye({ name: t, value: e, note: n, ready: s }) {
  const o = typeof e == "number";
  return /* @__PURE__ */ r("div", { children: [
    /* @__PURE__ */ r("dt", { children: t }),
    /* @__PURE__ */ r("dd", { children: [
      /* @__PURE__ */ r("span", { class: "bar", "aria-hidden": "true", children: /* @__PURE__ */ r("span", { style: { width: `${o ? Math.min(1, Math.abs(e)) * 100 : 0}%` } }) }),
      /* @__PURE__ */ r("b", { children: o ? e.toFixed(2) : s ? "–" : "…" }),
      " ",
      /* @__PURE__ */ r("small", { children: n })
    ] })
  ] });
}
function ne({ name: t, value: e }) {
  return e === void 0 ? null : /* @__PURE__ */ r("div", { children: [
    /* @__PURE__ */ r("dt", { children: t }),
    /* @__PURE__ */ r("dd", { children: e })
  ] });
}
const dn = { grid: "Grid", compare: "Compare", decide: "Decide", tokens: "Tokens" };
function wt({ transport: t, start: e }) {
  const [n, s] = q([]), [o, i] = q([]), [c, d] = q(() => Je(e)), [u, a] = q(null), [h, f] = q(""), l = He(async () => {
    const v = await Ce(t, "/api/inputs");
    return i(v), v;
  }, [t]);
  O(() => {
    Promise.all([Ce(t, "/api/models").then(s), l()]).catch((v) => a(K(v)));
  }, [t]), O(() => {
    if (!t.page) return;
    const v = () => d(Je(location.hash));
    return addEventListener("hashchange", v), () => removeEventListener("hashchange", v);
  }, [t]);
  const p = He((v, b = !1) => {
    d((_) => {
      const m = { ..._, ...v };
      return t.page && history[b ? "replaceState" : "pushState"](null, "", `#${gt(m)}`), m;
    });
  }, [t]), g = n.find((v) => v.id === c.m);
  O(() => {
    if (!n.length) return;
    const v = n.find((_) => _.id === c.m) ?? (c.m ? void 0 : n[0]);
    if (!v) return;
    const b = {};
    v.id !== c.m && (b.m = v.id), c.x || (b.x = o.find((_) => _.lenses.includes(v.id))?.sha ?? ""), c.q || (b.q = un(v)), b.x === "" && delete b.x, Object.keys(b).length && p(b, !0);
  }, [n, o, c.m, c.x, c.q]);
  const y = Z(() => ({ transport: t, models: n, inputs: o, view: c, model: g, set: p, refresh: l, say: f }), [t, n, o, c, g, p, l]);
  return u ? /* @__PURE__ */ r("main", { class: "alone", children: [
    /* @__PURE__ */ r("h1", { children: "sgfi explorer" }),
    /* @__PURE__ */ r(E, { problem: u })
  ] }) : /* @__PURE__ */ r(_t.Provider, { value: y, children: /* @__PURE__ */ r(hn, { said: h }) });
}
function un(t) {
  const e = t.nodes[Math.floor(t.nodes.length / 3)] ?? t.nodes[t.nodes.length - 1];
  return t.text ? `${e.name}@1` : e.name;
}
function hn({ said: t }) {
  const e = C(), { view: n, model: s, set: o, inputs: i } = e, [c, d] = q(!1), [u, a] = q(!1), [h, f] = q(!1), l = fe(null), p = i.some((b) => b.sha === n.x), g = s && p && n.q ? { lens: n.m, input: n.x, query: n.q, stages: ["preview", "final", "trust", ...n.s ? ["share"] : []] } : null, y = ee(g);
  gn(e, { open: () => d((b) => !b), help: () => a((b) => !b), take: () => f((b) => !b), query: () => {
    l.current?.focus(), l.current?.select();
  } });
  const v = z(s, n.q);
  return /* @__PURE__ */ r("div", { class: "workbench", children: [
    /* @__PURE__ */ r("a", { class: "skip", href: "#result", onClick: (b) => {
      b.preventDefault(), document.getElementById("result")?.focus();
    }, children: "Skip to the answer" }),
    /* @__PURE__ */ r("header", { children: [
      /* @__PURE__ */ r("h1", { children: "sgfi" }),
      /* @__PURE__ */ r("button", { type: "button", class: "where", "aria-expanded": c, onClick: () => d(!c), children: [
        /* @__PURE__ */ r("b", { children: s?.title ?? "model" }),
        " ",
        /* @__PURE__ */ r("span", { children: i.find((b) => b.sha === n.x)?.name ?? "input" })
      ] }),
      /* @__PURE__ */ r(_n, { box: l }),
      /* @__PURE__ */ r("div", { class: "switches", children: [
        /* @__PURE__ */ r("button", { type: "button", "aria-pressed": n.s, title: "Fade what the feature does not determine (s)", onClick: () => o({ s: !n.s }), children: "share" }),
        /* @__PURE__ */ r("button", { type: "button", "aria-pressed": n.w === "signed", title: "Signed colours: red above zero, blue below (w)", onClick: () => o({ w: n.w === "signed" ? "natural" : "signed" }), children: "signed" }),
        /* @__PURE__ */ r(fn, {}),
        /* @__PURE__ */ r("button", { type: "button", "aria-expanded": h, title: "Export what is shown (e)", onClick: () => f(!h), children: "export" }),
        /* @__PURE__ */ r("button", { type: "button", "aria-expanded": u, title: "Keyboard (?)", onClick: () => a(!u), children: "?" })
      ] })
    ] }),
    u && /* @__PURE__ */ r(mn, {}),
    h && /* @__PURE__ */ r(Ft, {}),
    c && /* @__PURE__ */ r(Xt, { close: () => d(!1) }),
    n.m && e.models.length > 0 && !s && /* @__PURE__ */ r(E, { problem: { expected: "an open model", got: n.m, todo: "This link is for a model that is not open here: name it when you start sgfi explore." } }),
    n.x && i.length > 0 && !p && /* @__PURE__ */ r(E, { problem: { expected: "a known input", got: n.x.slice(0, 12), todo: "This link is for an input that is not on this computer. Add it, or choose another." } }),
    /* @__PURE__ */ r("div", { class: "columns", children: [
      /* @__PURE__ */ r(Qt, {}),
      /* @__PURE__ */ r("main", { id: "result", tabIndex: -1, children: [
        /* @__PURE__ */ r("h2", { class: "query", children: [
          /* @__PURE__ */ r("code", { children: n.q || "…" }),
          " ",
          v && /* @__PURE__ */ r("small", { children: [
            "of ",
            vt(v)
          ] })
        ] }),
        s?.picture && p && /* @__PURE__ */ r(en, { stages: y }),
        s?.text && p && /* @__PURE__ */ r(sn, { stages: y }),
        p && /* @__PURE__ */ r(pn, {})
      ] }),
      /* @__PURE__ */ r(an, { stages: y })
    ] }),
    /* @__PURE__ */ r("div", { class: "said", role: "status", "aria-live": "polite", children: t })
  ] });
}
function pn() {
  const { view: t, set: e, model: n } = C(), s = n?.text ? ["tokens", "grid"] : ["grid", "compare", "decide"], o = s.find((i) => i === t.v) ?? s[0];
  return /* @__PURE__ */ r("section", { class: "tabs", children: [
    /* @__PURE__ */ r("div", { role: "tablist", "aria-label": "Below the pictures", children: s.map((i) => /* @__PURE__ */ r("button", { type: "button", role: "tab", id: `tab-${i}`, "aria-selected": o === i, "aria-controls": "tab-body", onClick: () => e({ v: i }), children: dn[i] }, i)) }),
    /* @__PURE__ */ r("div", { role: "tabpanel", id: "tab-body", "aria-labelledby": `tab-${o}`, children: [
      n && o === "grid" && /* @__PURE__ */ r(zt, {}),
      n && o === "compare" && /* @__PURE__ */ r(It, {}),
      n && o === "decide" && /* @__PURE__ */ r(Ht, {}),
      n && o === "tokens" && /* @__PURE__ */ r(on, {})
    ] })
  ] });
}
function _n({ box: t }) {
  const { view: e, set: n } = C(), [s, o] = q(e.q);
  return O(() => o(e.q), [e.q]), /* @__PURE__ */ r("form", { class: "querybox", onSubmit: (i) => {
    i.preventDefault(), n({ q: s.trim() }), t.current?.blur();
  }, children: [
    /* @__PURE__ */ r("label", { children: [
      /* @__PURE__ */ r("span", { class: "hidden", children: "Query" }),
      /* @__PURE__ */ r(
        "input",
        {
          ref: t,
          value: s,
          spellcheck: !1,
          autocomplete: "off",
          placeholder: "layer3.1.add:17@2,3",
          onInput: (i) => o(i.currentTarget.value),
          onKeyDown: (i) => {
            i.key === "Escape" && (o(e.q), i.currentTarget.blur());
          }
        }
      )
    ] }),
    /* @__PURE__ */ r("button", { type: "submit", children: "Ask" })
  ] });
}
function fn() {
  const { transport: t, say: e } = C();
  if (!t.page) return null;
  const n = async () => {
    try {
      await navigator.clipboard.writeText(location.href), e("Link copied");
    } catch {
      e("Copy the address of this page");
    }
  };
  return /* @__PURE__ */ r("button", { type: "button", onClick: () => void n(), title: "Copy the link to exactly this view", children: "link" });
}
function mn() {
  return /* @__PURE__ */ r("section", { class: "help", "aria-label": "Keyboard", children: [
    /* @__PURE__ */ r("dl", { children: [
      ["↑ ↓", "shallower, deeper tensor"],
      ["← →", "previous, next channel (or cell)"],
      ["[ ]", "previous, next input"],
      ["/", "write a query"],
      ["o", "open models and inputs"],
      ["s", "fade by share"],
      ["w", "signed colours"],
      ["g c d", "grid, compare, decide"],
      ["e", "export"],
      ["?", "this list"]
    ].map(([e, n]) => /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("dt", { children: /* @__PURE__ */ r("kbd", { children: e }) }),
      /* @__PURE__ */ r("dd", { children: n })
    ] }, e)) }),
    /* @__PURE__ */ r("p", { children: [
      "A query is ",
      /* @__PURE__ */ r("code", { children: "tensor[:channels][@cells]" }),
      ", such as ",
      /* @__PURE__ */ r("code", { children: "layer3.1.add:17@2,3" }),
      ". Click a cell of the inverse to ask about it alone."
    ] })
  ] });
}
function gn(t, e) {
  const n = fe({ session: t, act: e });
  n.current = { session: t, act: e }, O(() => {
    if (!t.transport.page) return;
    const s = (o) => {
      const i = o.target;
      if (o.ctrlKey || o.metaKey || o.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(i.tagName)) return;
      const { session: { view: c, model: d, set: u, inputs: a }, act: h } = n.current, f = z(d, c.q), l = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1, "[": -1, "]": 1 }[o.key] ?? 0;
      if (d && f && (o.key === "ArrowUp" || o.key === "ArrowDown")) {
        const p = d.nodes[d.nodes.indexOf(f) + l];
        p && u({ q: bt(c.q, f, p) });
      } else if (f && (o.key === "ArrowLeft" || o.key === "ArrowRight")) u({ q: Dt(c.q, f, l) });
      else if (o.key === "[" || o.key === "]") {
        const p = a.filter((y) => d && y.lenses.includes(d.id)), g = p.findIndex((y) => y.sha === c.x);
        p.length && u({ x: p[(g + l + p.length) % p.length].sha });
      } else if (o.key === "/") h.query();
      else if (o.key === "o") h.open();
      else if (o.key === "s") u({ s: !c.s });
      else if (o.key === "w") u({ w: c.w === "signed" ? "natural" : "signed" });
      else if (o.key === "?") h.help();
      else if (o.key === "e") h.take();
      else if (!d?.text && "gcd".includes(o.key)) u({ v: { g: "grid", c: "compare", d: "decide" }[o.key] });
      else return;
      o.preventDefault();
    };
    return addEventListener("keydown", s), () => removeEventListener("keydown", s);
  }, [t.transport]);
}
const Ye = typeof document > "u" ? null : document.getElementById("sgfi-explorer");
if (Ye) {
  const t = new URLSearchParams(location.search).get("token") ?? "";
  $e(/* @__PURE__ */ r(wt, { transport: new Lt(t), start: location.hash }), Ye);
}
function bn({ model: t, el: e }) {
  const n = new Rt(t);
  return e.classList.add("sgfi-widget"), $e(/* @__PURE__ */ r(wt, { transport: n, start: t.get("start") }), e), () => {
    $e(null, e), n.close();
  };
}
const vn = { render: bn };
export {
  vn as default
};
