; LLVM leaves out a selection that matters. Seen in LLVM 20.1 and 22.1, at every level of x86-64 and without any pass but code generation.
;
; @quotients divides two vectors of which the upper half is 0, and puts 0 where 0 / 0 was. What comes out has NaN there: the selection is gone.
; TargetLowering::SimplifyDemandedVectorElts has FDIV and FREM among the operations whose lanes are 0 where both operands' lanes are
; (OR, XOR, SUB, FADD, FSUB, FMUL), so %divided is taken to be 0 there already.
;
; @mended says the same with the constrained division, whose lanes nothing is assumed of. The division itself is the same instruction.

define void @quotients(ptr %x, ptr %y, ptr %out) {
  %a = load <2 x float>, ptr %x, align 4
  %b = load <2 x float>, ptr %y, align 4
  %dividend = shufflevector <2 x float> %a, <2 x float> zeroinitializer, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %divisor = shufflevector <2 x float> %b, <2 x float> zeroinitializer, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %divided = fdiv <4 x float> %dividend, %divisor
  %chosen = select <4 x i1> <i1 true, i1 true, i1 false, i1 false>, <4 x float> %divided, <4 x float> zeroinitializer
  store <4 x float> %chosen, ptr %out, align 4
  ret void
}

define void @mended(ptr %x, ptr %y, ptr %out) {
  %a = load <2 x float>, ptr %x, align 4
  %b = load <2 x float>, ptr %y, align 4
  %dividend = shufflevector <2 x float> %a, <2 x float> zeroinitializer, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %divisor = shufflevector <2 x float> %b, <2 x float> zeroinitializer, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %divided = call <4 x float> @llvm.experimental.constrained.fdiv.v4f32(<4 x float> %dividend, <4 x float> %divisor, metadata !"round.tonearest", metadata !"fpexcept.ignore")
  %chosen = select <4 x i1> <i1 true, i1 true, i1 false, i1 false>, <4 x float> %divided, <4 x float> zeroinitializer
  store <4 x float> %chosen, ptr %out, align 4
  ret void
}

declare <4 x float> @llvm.experimental.constrained.fdiv.v4f32(<4 x float>, <4 x float>, metadata, metadata)
